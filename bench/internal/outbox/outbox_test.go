package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/outbox"
	"github.com/troupehq/troupe/testkit"
)

// What is committed is pushed, in order, and what is rolled back is not, with all options of a push.
func TestWhatIsCommittedIsPushed(t *testing.T) { each(t, whatIsCommittedIsPushed) }

func whatIsCommittedIsPushed(t *testing.T, b *box) {
	in := func(end func(*sql.Tx) error, push func(tx *sql.Tx) (string, error)) string {
		t.Helper()
		tx, err := b.db.BeginTx(t.Context(), nil)
		must(t, err)
		jid, err := push(tx)
		must(t, err)
		must(t, end(tx))
		return jid
	}
	first := in((*sql.Tx).Commit, func(tx *sql.Tx) (string, error) { return b.Push(t.Context(), tx, welcome{1}) })
	in((*sql.Tx).Rollback, func(tx *sql.Tx) (string, error) { return b.Push(t.Context(), tx, welcome{2}) })
	later := in((*sql.Tx).Commit, func(tx *sql.Tx) (string, error) { return b.Push(t.Context(), tx, welcome{3}, client.In(time.Hour)) })
	in((*sql.Tx).Commit, func(tx *sql.Tx) (string, error) {
		return b.PushClass(t.Context(), tx, "Ruby", []any{"é", 1.5}, client.Queue("mail"))
	})
	in((*sql.Tx).Commit, func(tx *sql.Tx) (string, error) {
		var items []client.Item
		for i := range 250 {
			items = append(items, client.Job(welcome{i}, client.Queue("many")))
		}
		jids, err := b.PushMany(t.Context(), tx, items...)
		return strings.Join(jids, ""), err
	})
	if keys := b.rdb.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Fatalf("in Redis before the relay: %v", keys)
	}
	r := b.relay(t, b.rdb, 0)
	if n, err := r.Once(t.Context()); n != 253 || err != nil {
		t.Fatalf("relayed %d, %v", n, err)
	}
	mail, many := b.jobs(t, "mail"), b.jobs(t, "many")
	if len(mail) != 2 || len(many) != 250 {
		t.Fatalf("%d and %d jobs", len(mail), len(many))
	}
	if retry, _ := mail[0].Int("retry"); mail[0].JID() != first || retry != 3 || string(mail[0].Args()) != "[1]" {
		t.Errorf("the first job is %s", mail[0].Bytes())
	}
	if string(mail[1].Args()) != `["é",1.5]` {
		t.Errorf("the second job is %s", mail[1].Bytes())
	}
	for i, p := range many {
		if string(p.Args()) != fmt.Sprintf("[%d]", i) {
			t.Fatalf("job %d is %s", i, p.Bytes())
		}
	}
	if job := testkit.RequireScheduled[welcome](t, b.rdb); job.JID != later {
		t.Errorf("scheduled: %+v", job)
	}
	if n, err := r.Once(t.Context()); n != 0 || err != nil || b.count(t, "troupe_outbox") != 0 {
		t.Errorf("again: %d, %v; %d rows are left", n, err, b.count(t, "troupe_outbox"))
	}
}

// Rows of programs in other languages are jobs; what can be none is put aside with the reason, and holds up nothing.
func TestRowsOfOthers(t *testing.T) { each(t, rowsOfOthers) }

func rowsOfOthers(t *testing.T, b *box) {
	b.rdb.Set(t.Context(), "queue:refuses", "a string", 0)
	for _, row := range [][2]string{
		{"default", `{"class":"A","args":[1]}`}, {"", `{"class":"B","args":[],"queue":"low"}`}, {"default", `no job`},
		{"default", `{"args":[]}`}, {"refuses", `{"class":"C","args":[]}`}, {"default", `{"class":"D","args":[]}`},
	} {
		b.exec(t, "INSERT INTO troupe_outbox (queue, payload) VALUES ('"+row[0]+"', '"+row[1]+"')")
	}
	r := b.relay(t, b.rdb, 0)
	if n, err := r.Once(t.Context()); n != 6 || err != nil {
		t.Fatalf("relayed %d, %v", n, err)
	}
	jobs := b.jobs(t, "default")
	if len(jobs) != 2 || len(b.jobs(t, "low")) != 1 || len(jobs[0].JID()) != 24 || jobs[1].Class() != "D" {
		t.Errorf("%d jobs", len(jobs))
	}
	if s := r.Stats(); s.Pushed != 3 || s.Bad != 3 {
		t.Errorf("%+v", s)
	}
	rows, err := b.db.QueryContext(t.Context(), "SELECT id, reason FROM troupe_outbox_bad ORDER BY id")
	must(t, err)
	defer func() { _ = rows.Close() }()
	var bad []string
	for rows.Next() {
		var id int
		var reason string
		must(t, rows.Scan(&id, &reason))
		bad = append(bad, fmt.Sprintf("%d: %s", id, reason))
	}
	must(t, rows.Err())
	for i, want := range []string{"3: invalid payload", "4: class", "5: queue refuses: WRONGTYPE"} {
		if i >= len(bad) || !strings.HasPrefix(bad[i], want) {
			t.Errorf("put aside: %q, want %q", bad, want)
		}
	}
}

// A push that an outbox cannot make is told before the commit.
func TestPushesThatAnOutboxRefuses(t *testing.T) { each(t, pushesThatAnOutboxRefuses) }

func pushesThatAnOutboxRefuses(t *testing.T, b *box) {
	for want, push := range map[string]func() error{
		"Unique": func() error {
			_, err := b.Push(t.Context(), b.db, welcome{1}, client.Unique(troupe.Unique{}))
			return err
		},
		"Debounce": func() error {
			_, err := b.Push(t.Context(), b.db, welcome{1}, client.Debounce("k", time.Second, time.Minute))
			return err
		},
		"tx": func() error { _, err := b.Push(t.Context(), nil, welcome{1}); return err },
	} {
		if fault, ok := errors.AsType[*client.FieldError](push()); !ok || fault.Field != want {
			t.Errorf("%s: %v", want, fault)
		}
	}
	if n := b.count(t, "troupe_outbox"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// A transaction that stays open holds up no job of another; its own comes when it is committed, though its id is lower.
func TestATransactionThatStaysOpen(t *testing.T) { each(t, aTransactionThatStaysOpen) }

func aTransactionThatStaysOpen(t *testing.T, b *box) {
	if b.dialect.name == outbox.SQLite {
		return // one transaction writes at a time
	}
	tx, err := b.db.BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = b.Push(t.Context(), tx, welcome{1})
	must(t, err)
	_, err = outbox.Once(testkit.Context(t, troupe.JobInfo{}), tx, b.dialect.name, "")
	must(t, err)
	r := b.relay(t, b.rdb, 0)
	for i := range 3 {
		_, err = b.Push(t.Context(), b.db, welcome{2 + i})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if n, err := r.Once(ctx); n != 1 || err != nil {
			t.Errorf("relayed %d, %v", n, err)
		}
		cancel()
	}
	must(t, tx.Commit())
	if n, err := r.Once(t.Context()); n != 1 || err != nil {
		t.Errorf("relayed %d, %v", n, err)
	}
	var all []string
	for _, p := range b.jobs(t, "mail") {
		all = append(all, string(p.Args()))
	}
	if got := strings.Join(all, ""); got != "[2][3][4][1]" {
		t.Error(got)
	}
}
