package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/bench/internal/server"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/outbox"
	"github.com/troupehq/troupe/testkit"
)

var pg *server.Postgres

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if server.PostgresMissing() == nil {
		var err error
		if pg, err = server.StartPostgres(context.Background()); err != nil {
			log.Println(err)
			return 1
		}
		defer pg.Close()
	}
	return m.Run()
}

type welcome struct {
	UserID int `arg:"0"`
}

func (welcome) Class() string { return "Welcome" }

func (welcome) Defaults() troupe.Options {
	return troupe.Options{Queue: "mail", Retries: troupe.Times(3)}
}

// box is an outbox in a database of its own, and the Redis of its jobs.
type box struct {
	*outbox.Outbox
	url string
	db  *sql.DB
	rdb *redis.Client
}

var databases sync.Mutex

func newBox(t *testing.T) *box {
	t.Helper()
	if pg == nil {
		if os.Getenv("CI") != "" || os.Getenv("TROUPE_NO_SKIP") != "" {
			t.Fatal(server.PostgresMissing())
		}
		t.Skip(server.PostgresMissing())
	}
	databases.Lock()
	defer databases.Unlock()
	name, err := pg.Database(t.Context(), "")
	must(t, err)
	b := &box{url: pg.URL(name), rdb: testkit.Redis(t)}
	b.db, err = sql.Open("pgx", b.url)
	must(t, err)
	b.db.SetMaxOpenConns(20)
	t.Cleanup(func() { _ = b.db.Close() })
	must(t, outbox.Migrate(t.Context(), b.db, outbox.Postgres))
	must(t, outbox.Migrate(t.Context(), b.db, outbox.Postgres)) // changes nothing
	b.Outbox = outbox.New(client.New(b.rdb), outbox.Postgres)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *box) relay(t *testing.T, rdb redis.UniversalClient, lease time.Duration) *outbox.Relay {
	t.Helper()
	r, err := outbox.NewRelay(b.db, client.New(rdb), outbox.RelayConfig{Dialect: outbox.Postgres, Lease: lease})
	must(t, err)
	return r
}

func (b *box) count(t *testing.T, table string) (n int) {
	t.Helper()
	must(t, b.db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// jobs are the payloads of a queue, the oldest first.
func (b *box) jobs(t *testing.T, queue string) (all []*troupe.Payload) {
	t.Helper()
	for _, raw := range b.rdb.LRange(t.Context(), "queue:"+queue, 0, -1).Val() {
		p, err := troupe.ParsePayload([]byte(raw))
		must(t, err)
		all = append([]*troupe.Payload{p}, all...)
	}
	return all
}

// What is committed is pushed, in order, and what is rolled back is not, with all options of a push.
func TestWhatIsCommittedIsPushed(t *testing.T) {
	b := newBox(t)
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

// A transaction of pgx, without database/sql.
func TestATransactionOfPgx(t *testing.T) {
	b := newBox(t)
	conn, err := pgx.Connect(t.Context(), b.url)
	must(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	tx, err := conn.Begin(t.Context())
	must(t, err)
	_, err = b.Push(t.Context(), outbox.ExecFunc(func(ctx context.Context, query string, args ...any) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	}), welcome{1}, client.In(time.Hour))
	must(t, err)
	must(t, tx.Commit(t.Context()))
	if n := b.count(t, "troupe_outbox"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// Rows of programs in other languages are jobs; what can be none is put aside with the reason, and holds up nothing.
func TestRowsOfOthers(t *testing.T) {
	b := newBox(t)
	b.rdb.Set(t.Context(), "queue:refuses", "a string", 0)
	for _, row := range [][2]any{
		{"default", `{"class":"A","args":[1]}`}, {"", `{"class":"B","args":[],"queue":"low"}`}, {"default", `no job`},
		{"default", `{"args":[]}`}, {"refuses", `{"class":"C","args":[]}`}, {"default", `{"class":"D","args":[]}`},
	} {
		_, err := b.db.ExecContext(t.Context(), "INSERT INTO troupe_outbox (queue, payload) VALUES ($1, $2)", row[0], row[1])
		must(t, err)
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
func TestPushesThatAnOutboxRefuses(t *testing.T) {
	b := newBox(t)
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

// An idle relay pushes soon after a commit; while Redis is away the rows wait.
func TestARelayRuns(t *testing.T) {
	b := newBox(t)
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

// errLostReply stands for the reply of a command that was carried out.
var errLostReply = &net.OpError{Op: "read", Err: errors.New("lost by the test")}

// faults loses commands before they are sent, and replies.
type faults struct{ off atomic.Bool }

func (f *faults) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *faults) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f *faults) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !f.off.Load() && rand.IntN(10) == 0 {
			cmd.SetErr(errLostReply)
			return errLostReply
		}
		err := next(ctx, cmd)
		if !f.off.Load() && rand.IntN(10) == 0 {
			cmd.SetErr(errLostReply)
			return errLostReply
		}
		return err
	}
}

// Each committed job is pushed once, whatever relays die of and whenever: three work side by side and are given up in the middle
// of a batch, connections of the database are killed, replies of Redis are lost.
func TestEachCommittedJobIsPushedOnce(t *testing.T) {
	b := newBox(t)
	var lossy faults
	rdb := redis.NewClient(b.rdb.Options())
	defer func() { _ = rdb.Close() }()
	rdb.AddHook(&lossy)
	ctx, stop := context.WithCancel(t.Context())
	var relays, writers sync.WaitGroup
	var deaths atomic.Int64
	for range 3 {
		relays.Go(func() {
			for r := b.relay(t, rdb, 200*time.Millisecond); ctx.Err() == nil; {
				call, cancel := context.WithTimeout(ctx, time.Duration(5+rand.IntN(300))*time.Millisecond)
				n, err := r.Once(call)
				cancel()
				switch {
				case err != nil: // it dies, and holds its lease
					deaths.Add(1)
					r = b.relay(t, rdb, 200*time.Millisecond)
				case n == 0:
					time.Sleep(2 * time.Millisecond) // between two looks
				}
			}
		})
	}
	relays.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(30 * time.Millisecond) // between two kills
			_, _ = b.db.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%batch%' ORDER BY random() LIMIT 1")
		}
	})
	var mu sync.Mutex
	committed, unknown := map[string]bool{}, map[string]bool{}
	for w := range 4 {
		writers.Go(func() {
			for i := range 150 {
				tx, err := b.db.BeginTx(t.Context(), nil)
				if err != nil {
					continue
				}
				var jids []string
				for k := range 5 {
					jid, err := b.Push(t.Context(), tx, welcome{w*10000 + i*10 + k}, client.Queue(fmt.Sprintf("q%d", k%2)))
					if err != nil {
						break
					}
					jids = append(jids, jid)
				}
				if len(jids) < 5 || rand.IntN(5) == 0 {
					_ = tx.Rollback()
					continue
				}
				err = tx.Commit()
				mu.Lock()
				for _, jid := range jids {
					if err == nil {
						committed[jid] = true
					} else {
						unknown[jid] = true // the connection was killed: nobody knows
					}
				}
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	testkit.Await(t, "200 deaths", func() bool {
		if deaths.Load() < 200 { // more batches to die in
			jid, err := b.Push(t.Context(), b.db, welcome{1}, client.Queue("q0"))
			if err == nil {
				committed[jid] = true
			} else {
				unknown[jid] = true
			}
			return false
		}
		return true
	})
	stop()
	relays.Wait()
	lossy.off.Store(true)
	last := b.relay(t, b.rdb, 0)
	testkit.Await(t, "all rows are relayed", func() bool {
		_, err := last.Once(t.Context())
		return err == nil && b.count(t, "troupe_outbox") == 0
	})
	seen := map[string]int{}
	for _, queue := range []string{"q0", "q1"} {
		for _, p := range b.jobs(t, queue) {
			seen[p.JID()]++
		}
	}
	for jid := range committed {
		if seen[jid] != 1 {
			t.Errorf("%s was committed, and is there %d times", jid, seen[jid])
		}
	}
	for jid, n := range seen {
		if n > 1 || !committed[jid] && !unknown[jid] {
			t.Errorf("%s is there %d times; committed %t, unknown %t", jid, n, committed[jid], unknown[jid])
		}
	}
	t.Logf("%d committed, %d unknown, %d deaths, %d bad", len(committed), len(unknown), deaths.Load(), b.count(t, "troupe_outbox_bad"))
}

// Redis loses its data between the push and the deletion: the batch is pushed again. The database goes back to an older state: what
// is written after that is pushed though its numbers were used before.
func TestEitherSideGoesBack(t *testing.T) {
	b := newBox(t)
	once := func(r *outbox.Relay, want int) {
		t.Helper()
		if n, err := r.Once(t.Context()); n != want || err != nil {
			t.Fatalf("relayed %d, %v, want %d", n, err, want)
		}
	}
	push := func(i int) {
		t.Helper()
		_, err := b.Push(t.Context(), b.db, welcome{i})
		must(t, err)
	}
	var lossy faults
	lossy.off.Store(true)
	r := b.relay(t, b.rdb, 0)
	push(1)
	once(r, 1)
	push(2)
	call, cancel := context.WithCancel(t.Context())
	dying := redis.NewClient(b.rdb.Options())
	defer func() { _ = dying.Close() }()
	dying.AddHook(after{cancel}) // the push is made, and the deletion is not
	_, err := b.db.ExecContext(t.Context(), "UPDATE troupe_outbox_state SET until = 0")
	must(t, err)
	if _, err := b.relay(t, dying, 0).Once(call); err == nil {
		t.Fatal("the relay has gone on")
	}
	if n := len(b.jobs(t, "mail")); n != 2 {
		t.Fatalf("%d jobs", n)
	}
	b.rdb.FlushDB(t.Context())
	_, err = b.db.ExecContext(t.Context(), "UPDATE troupe_outbox_state SET until = 0")
	must(t, err)
	once(r, 1)
	if n := len(b.jobs(t, "mail")); n != 1 {
		t.Errorf("%d jobs after the loss, want the one of the batch that was not deleted", n)
	}
	var token string
	var last int
	push(3)
	once(r, 1)
	must(t, b.db.QueryRowContext(t.Context(), "SELECT token, last FROM troupe_outbox_state").Scan(&token, &last))
	push(4)
	once(r, 1)
	_, err = b.db.ExecContext(t.Context(), "UPDATE troupe_outbox_state SET token = $1, last = $2", token, last) // as after a restore
	must(t, err)
	push(5)
	once(r, 1)
	if n := len(b.jobs(t, "mail")); n != 4 {
		t.Errorf("%d jobs after the database has gone back, want 4", n)
	}
}

// after calls f after each script.
type after struct{ f func() }

func (a after) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a after) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a after) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && strings.HasPrefix(cmd.Name(), "eval") {
			a.f()
		}
		return err
	}
}

// What is kept is pushed again when Redis has lost it, whenever that was, and goes when its time is over.
func TestWhatIsKeptIsPushedAgain(t *testing.T) {
	b := newBox(t)
	r, err := outbox.NewRelay(b.db, client.New(b.rdb), outbox.RelayConfig{Dialect: outbox.Postgres, Keep: time.Hour})
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
	var before time.Time
	must(t, b.db.QueryRowContext(t.Context(), "SELECT to_timestamp(done) FROM troupe_outbox ORDER BY id OFFSET 2 LIMIT 1").Scan(&before))
	b.rdb.FlushDB(t.Context())
	n, err := outbox.Replay(t.Context(), b.db, outbox.Postgres, before)
	if n != 3 || err != nil {
		t.Fatalf("replay of %d, %v, want 3", n, err)
	}
	once(3)
	for i, p := range b.jobs(t, "mail") {
		if p.JID() != jids[2+i] {
			t.Errorf("job %d is %s, want %s", i, p.JID(), jids[2+i])
		}
	}
	_, err = b.db.ExecContext(t.Context(), "UPDATE troupe_outbox SET done = done - 3601 WHERE id <= 2")
	must(t, err)
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
func TestABatchLongerThanTheLease(t *testing.T) {
	b := newBox(t)
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

// Tables that are missing or of another version are a state, and so is a relay's user that may not.
func TestTablesThatAreNotThose(t *testing.T) {
	b := newBox(t)
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
	do := func(query string) {
		t.Helper()
		_, err := b.db.ExecContext(t.Context(), query)
		must(t, err)
	}
	is(outbox.Leads, "")
	do("UPDATE troupe_outbox_state SET version = 7")
	is(outbox.NoTables, "of version 7, expected 1")
	do("UPDATE troupe_outbox_state SET version = 1")
	is(outbox.Leads, "")
	do("ALTER TABLE troupe_outbox_state RENAME TO hidden")
	is(outbox.NoTables, "the tables are not there")
	do("ALTER TABLE hidden RENAME TO troupe_outbox_state")
	is(outbox.Leads, "")
	stop()
	must(t, <-ended)
	if n := b.count(t, "troupe_outbox_state WHERE until = 0"); n != 1 {
		t.Error("the relay that has ended holds its lease")
	}
}
