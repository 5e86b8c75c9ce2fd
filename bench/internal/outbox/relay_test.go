package outbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/outbox"
	"github.com/troupehq/troupe/testkit"
)

// An idle relay pushes soon after a commit; while Redis is away the rows wait.
func TestARelayRuns(t *testing.T) { each(t, aRelayRuns) }

func aRelayRuns(t *testing.T, b *box) {
	s := testkit.NewServer(t)
	ctx, stop := context.WithCancel(t.Context())
	r := b.relay(t, s.Client, 0)
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	push := func(i int) {
		t.Helper()
		_, err := b.Push(t.Context(), b.db, welcome{i})
		must(t, err)
	}
	arrived := func(n uint64) func() bool { return func() bool { return r.Stats().Pushed == n } }
	push(1)
	testkit.Await(t, "it is pushed", arrived(1))
	s.Kill()
	push(2)
	testkit.Await(t, "the fault is told", func() bool { return r.Stats().State == outbox.NoRedis })
	s.Restart()
	testkit.Await(t, "it is pushed, too", arrived(2))
	testkit.Await(t, "the fault is over", func() bool { return r.Stats().State == outbox.Leads && r.Stats().Error == "" })
	stop()
	must(t, <-ended)
}

// What is kept is pushed again when Redis has lost it, whenever that was, and goes when its time is over.
func TestWhatIsKeptIsPushedAgain(t *testing.T) { each(t, whatIsKeptIsPushedAgain) }

func whatIsKeptIsPushedAgain(t *testing.T, b *box) {
	r, err := outbox.NewRelay(b.db, client.New(b.rdb), outbox.RelayConfig{Dialect: b.name, Keep: time.Hour})
	must(t, err)
	var jids []string
	once := func(want int) {
		t.Helper()
		if n, err := r.Once(t.Context()); n != want || err != nil {
			t.Fatalf("relayed %d, %v, want %d", n, err, want)
		}
	}
	for i := range 5 {
		jid, err := b.Push(t.Context(), b.db, welcome{i})
		must(t, err)
		jids = append(jids, jid)
		once(1)
	}
	once(0)
	b.exec(t, "UPDATE troupe_outbox SET done = done + id * 0.01") // SQLite's clock has milliseconds
	var done float64
	must(t, b.db.QueryRowContext(t.Context(), "SELECT done FROM troupe_outbox ORDER BY id LIMIT 1 OFFSET 2").Scan(&done))
	b.rdb.FlushDB(t.Context())
	n, err := outbox.Replay(t.Context(), b.db, b.name, time.UnixMicro(int64(done*1e6)-1))
	if n != 3 || err != nil {
		t.Fatalf("replay of %d, %v, want 3", n, err)
	}
	once(3)
	for i, p := range b.jobs(t, "mail") {
		if p.JID() != jids[2+i] {
			t.Errorf("job %d is %s, want %s", i, p.JID(), jids[2+i])
		}
	}
	b.exec(t, "UPDATE troupe_outbox SET done = done - 3601 WHERE id <= 2")
	_, err = b.Push(t.Context(), b.db, welcome{9})
	must(t, err)
	once(1)
	if n := b.count(t, "troupe_outbox"); n != 4 {
		t.Errorf("%d rows are kept, want 4", n)
	}
	if s := r.Stats(); s.State != outbox.Leads || s.Pushed != 9 {
		t.Errorf("%+v", s)
	}
}

// A batch that takes longer than the lease is finished by the relay that has begun it.
func TestABatchLongerThanTheLease(t *testing.T) { each(t, aBatchLongerThanTheLease) }

func aBatchLongerThanTheLease(t *testing.T, b *box) {
	slow := redis.NewClient(b.rdb.Options())
	defer func() { _ = slow.Close() }()
	const lease = 300 * time.Millisecond
	slow.AddHook(after{func() { time.Sleep(3 * lease) }}) // Redis answers slowly
	r, other := b.relay(t, slow, lease), b.relay(t, b.rdb, lease)
	_, err := b.Push(t.Context(), b.db, welcome{1})
	must(t, err)
	ended := make(chan error, 1)
	go func() {
		n, err := r.Once(t.Context())
		if err == nil && n != 1 {
			err = fmt.Errorf("relayed %d", n)
		}
		ended <- err
	}()
	testkit.Await(t, "it is pushed", func() bool { return len(b.jobs(t, "mail")) == 1 })
	for {
		select {
		case err := <-ended:
			must(t, err)
			return
		case <-time.After(20 * time.Millisecond):
			if _, err := other.Once(t.Context()); err != nil || other.Stats().State == outbox.Leads && b.count(t, "troupe_outbox") > 0 {
				t.Fatalf("the other one has taken over: %v", err)
			}
		}
	}
}

// Large rows are pushed in several batches, each once and in order.
func TestLargeRows(t *testing.T) { each(t, largeRows) }

func largeRows(t *testing.T, b *box) {
	const size = 3 << 20
	for i := range 12 {
		_, err := b.PushClass(t.Context(), b.db, "Large", []any{i, strings.Repeat("x", size)}, client.Queue("mail"))
		must(t, err)
	}
	r := b.relay(t, b.rdb, 0)
	var all []int
	for n := 1; n > 0; {
		var err error
		n, err = r.Once(t.Context())
		must(t, err)
		all = append(all, n)
	}
	if got := fmt.Sprint(all); got != "[5 5 2 0]" { // 16 MiB at most
		t.Errorf("batches of %s rows", got)
	}
	jobs := b.jobs(t, "mail")
	if len(jobs) != 12 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for i, p := range jobs {
		if !strings.HasPrefix(string(p.Args()), fmt.Sprintf("[%d,", i)) {
			t.Errorf("job %d is %.60s", i, p.Bytes())
		}
	}
}

// Tables that are missing or of another version are a state, and so is a relay's user that may not.
func TestTablesThatAreNotThose(t *testing.T) { each(t, tablesThatAreNotThose) }

func tablesThatAreNotThose(t *testing.T, b *box) {
	r := b.relay(t, b.rdb, 0)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	is := func(state, text string) {
		t.Helper()
		testkit.Await(t, state, func() bool {
			s := r.Stats()
			return s.State == state && (text == "") == (s.Error == "") && strings.Contains(s.Error, text)
		})
	}
	is(outbox.Leads, "")
	b.exec(t, "UPDATE troupe_outbox_state SET version = 7")
	is(outbox.NoTables, "of version 7, expected 1")
	b.exec(t, "UPDATE troupe_outbox_state SET version = 1")
	is(outbox.Leads, "")
	b.exec(t, "ALTER TABLE troupe_outbox_state RENAME TO hidden")
	is(outbox.NoTables, "the tables are not there")
	b.exec(t, "ALTER TABLE hidden RENAME TO troupe_outbox_state")
	is(outbox.Leads, "")
	stop()
	must(t, <-ended)
	if n := b.count(t, "troupe_outbox_state WHERE until = 0"); n != 1 {
		t.Error("the relay that has ended holds its lease")
	}
}
