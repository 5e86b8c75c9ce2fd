package outbox

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/outbox"
	"github.com/troupehq/troupe/testkit"
)

// once asks Once in a transaction of its own, which end ends.
func (b *box) once(t *testing.T, jid, name string, end func(*sql.Tx) error) bool {
	t.Helper()
	tx, err := b.db.BeginTx(t.Context(), nil)
	must(t, err)
	first, err := outbox.Once(testkit.Context(t, troupe.JobInfo{JID: jid}), tx, b.dialect.name, name)
	must(t, err)
	must(t, end(tx))
	return first
}

// An effect is noted with its transaction, for each job and name, and the relay removes the notes that are old.
func TestOnce(t *testing.T) { each(t, once) }

func once(t *testing.T, b *box) {
	long := strings.Repeat("é", 400)
	for i, step := range []struct {
		jid, name string
		end       func(*sql.Tx) error
		want      bool
	}{
		{"j1", "mail", (*sql.Tx).Rollback, true}, {"j1", "mail", (*sql.Tx).Commit, true}, {"j1", "mail", (*sql.Tx).Commit, false},
		{"J1", "mail", (*sql.Tx).Commit, true}, {"j1", "Mail", (*sql.Tx).Commit, true}, {"j1", "", (*sql.Tx).Commit, true},
		{"j2", "mail", (*sql.Tx).Commit, true}, {"j1 ", "mail", (*sql.Tx).Commit, true},
		{long + "1", "mail", (*sql.Tx).Commit, true}, {long + "2", "mail", (*sql.Tx).Commit, true}, {long + "1", "mail", (*sql.Tx).Commit, false},
	} {
		if first := b.once(t, step.jid, step.name, step.end); first != step.want {
			t.Errorf("step %d: the first is %t", i, first)
		}
	}
	if n := b.count(t, "troupe_inbox"); n != 8 {
		t.Errorf("%d notes", n)
	}
	b.exec(t, "UPDATE troupe_inbox SET at = at - 86400 * 211 WHERE jid = 'j2'")
	b.exec(t, "UPDATE troupe_inbox SET at = at - 86400 * 209 WHERE name = ''")
	_, err := b.relay(t, b.rdb, 0).Once(t.Context())
	must(t, err)
	if n, gone := b.count(t, "troupe_inbox"), b.count(t, "troupe_inbox WHERE jid = 'j2'"); n != 7 || gone != 0 {
		t.Errorf("%d notes after the relay has looked, %d of them old", n, gone)
	}
	if _, err := outbox.Once(t.Context(), b.db, b.dialect.name, "mail"); err == nil || !strings.Contains(err.Error(), "belongs to no job") {
		t.Errorf("outside of a job: %v", err)
	}
}

// Of runs of the same job at the same time one is the first.
func TestOnceAtTheSameTime(t *testing.T) { each(t, onceAtTheSameTime) }

func onceAtTheSameTime(t *testing.T, b *box) {
	b.exec(t, "CREATE TABLE effects (jid varchar(64))")
	var wg sync.WaitGroup
	var firsts atomic.Int64
	for range 8 {
		wg.Go(func() {
			for _, jid := range []string{"j1", "j2", "j3", "j4", "j5"} {
				tx, err := b.db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				first, err := outbox.Once(testkit.Context(t, troupe.JobInfo{JID: jid}), tx, b.dialect.name, "")
				if err == nil && first {
					firsts.Add(1)
					_, err = tx.ExecContext(t.Context(), "INSERT INTO effects (jid) VALUES ('"+jid+"')")
				}
				if err := errors.Join(err, tx.Commit()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := b.count(t, "effects"); n != 5 || firsts.Load() != 5 {
		t.Errorf("%d effects of 5 jobs, and %d were told to be the first", n, firsts.Load())
	}
}

// A transaction of pgx, without database/sql.
func TestATransactionOfPgx(t *testing.T) {
	b := newBox(t, dialects[0])
	conn, err := pgx.Connect(t.Context(), b.url)
	must(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	for i := range 2 {
		tx, err := conn.Begin(t.Context())
		must(t, err)
		within := outbox.ExecFunc(func(ctx context.Context, query string, args ...any) (int64, error) {
			tag, err := tx.Exec(ctx, query, args...)
			return tag.RowsAffected(), err
		})
		_, err = b.Push(t.Context(), within, welcome{1}, client.In(time.Hour))
		must(t, err)
		first, err := outbox.Once(testkit.Context(t, troupe.JobInfo{JID: "j1"}), within, outbox.Postgres, "")
		must(t, err)
		if first != (i == 0) {
			t.Errorf("the first in transaction %d is %t", i, first)
		}
		must(t, tx.Commit(t.Context()))
	}
	if n := b.count(t, "troupe_outbox"); n != 2 {
		t.Errorf("%d rows", n)
	}
}
