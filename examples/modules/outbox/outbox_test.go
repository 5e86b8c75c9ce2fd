package outbox_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"example.com/outbox"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/testkit"
)

type Welcome struct{ UserID int }

func (Welcome) Class() string { return "Welcome" }

func (Welcome) Defaults() troupe.Options {
	return troupe.Options{Queue: "mail", Retries: troupe.Times(3)}
}

// TestWhatIsCommittedIsPushed has a job of a transaction that ends well, one of a transaction that does not, and one for later.
func TestWhatIsCommittedIsPushed(t *testing.T) {
	table := &table{}
	db := sql.OpenDB(table)
	m := testkit.NewMemory(t)
	box := outbox.New(db, m.Client)

	in := func(user int, end func(*sql.Tx) error, opts ...client.Option) string {
		t.Helper()
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		jid, err := box.Push(t.Context(), tx, Welcome{UserID: user}, opts...)
		if err != nil || jid == "" {
			t.Fatalf("push: jid %q, %v", jid, err)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
		return jid
	}
	jid := in(1, (*sql.Tx).Commit)
	in(2, (*sql.Tx).Rollback)
	later := in(3, (*sql.Tx).Commit, client.In(time.Hour))

	if keys := m.Client.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Fatalf("in Redis before the relay: %v", keys)
	}
	if n, err := box.Once(t.Context()); n != 2 || err != nil {
		t.Fatalf("relayed %d, %v", n, err)
	}
	if n := m.Client.LLen(t.Context(), "queue:mail").Val(); n != 1 {
		t.Errorf("%d jobs in the queue", n)
	}
	p, err := troupe.ParsePayload([]byte(m.Client.LIndex(t.Context(), "queue:mail", 0).Val()))
	if err != nil {
		t.Fatal(err)
	}
	if retry, _ := p.Int("retry"); p.JID() != jid || retry != 3 || string(p.Args()) != `[{"UserID":1}]` {
		t.Errorf("pushed: %s", p.Bytes())
	}
	if job := testkit.RequireScheduled[Welcome](t, m.Client); job.JID != later || job.Args.UserID != 3 {
		t.Errorf("scheduled: %+v", job)
	}
	if n, err := box.Once(t.Context()); n != 0 || err != nil {
		t.Errorf("relayed again: %d, %v", n, err)
	}
}

// TestWhatIsPushedAndNotCommittedIsPushedAgain: at least once.
func TestWhatIsPushedAndNotCommittedIsPushedAgain(t *testing.T) {
	table := &table{}
	db := sql.OpenDB(table)
	m := testkit.NewMemory(t)
	box := outbox.New(db, m.Client)
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	jid, err := box.Push(t.Context(), tx, Welcome{UserID: 1})
	if err := errors.Join(err, tx.Commit()); err != nil {
		t.Fatal(err)
	}
	m.SetError("LOADING")
	if n, err := box.Once(t.Context()); n != 0 || err == nil {
		t.Errorf("relayed %d without Redis: %v", n, err)
	}
	m.SetError("")
	table.refuse = errors.New("the commit is lost")
	if n, err := box.Once(t.Context()); !errors.Is(err, table.refuse) {
		t.Errorf("relayed %d, %v", n, err)
	}
	table.refuse = nil
	if n, err := box.Once(t.Context()); n != 1 || err != nil {
		t.Errorf("relayed %d, %v", n, err)
	}
	list := m.Client.LRange(t.Context(), "queue:mail", 0, -1).Val()
	for _, raw := range list {
		if p, err := troupe.ParsePayload([]byte(raw)); err != nil || p.JID() != jid {
			t.Errorf("pushed %s, want the jid %s", raw, jid)
		}
	}
	if len(list) != 2 {
		t.Errorf("%d jobs in the queue", len(list))
	}
}

// TestADuplicateHoldsNobodyUp has two jobs that are the same, and one behind them.
func TestADuplicateHoldsNobodyUp(t *testing.T) {
	db := sql.OpenDB(&table{})
	m := testkit.NewMemory(t)
	box := outbox.New(db, m.Client)
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []int{1, 1, 2} {
		if _, err := box.Push(t.Context(), tx, Welcome{UserID: user}, client.Unique(troupe.Unique{})); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if n, err := box.Once(t.Context()); n != 3 || err != nil {
		t.Errorf("relayed %d, %v", n, err)
	}
	if n := m.Client.LLen(t.Context(), "queue:mail").Val(); n != 2 {
		t.Errorf("%d jobs in the queue", n)
	}
}
