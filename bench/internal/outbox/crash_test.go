package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/outbox"
	"github.com/troupehq/troupe/testkit"
)

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
// of a batch, connections of the database are killed, replies of Redis are lost, and both servers are killed and started again.
func TestEachCommittedJobIsPushedOnce(t *testing.T) { each(t, eachCommittedJobIsPushedOnce) }

func eachCommittedJobIsPushedOnce(t *testing.T, b *box) {
	var lossy faults
	s := testkit.NewServer(t, "--appendonly", "yes", "--appendfsync", "always")
	b.rdb = s.Client
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
					time.Sleep(5 * time.Millisecond) // it takes a moment to start
					r = b.relay(t, rdb, 200*time.Millisecond)
				case n == 0:
					time.Sleep(2 * time.Millisecond) // between two looks
				}
			}
		})
	}
	relays.Go(func() {
		for b.kill != nil && ctx.Err() == nil {
			time.Sleep(30 * time.Millisecond) // between two kills
			b.kill(ctx, b.db)
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
	more := 0
	dying := func(n int64) func() bool {
		return func() bool {
			if deaths.Load() >= n {
				return true
			}
			more++ // batches to die in
			jid := fmt.Sprintf("more%d", more)
			_, err := b.Push(t.Context(), b.db, welcome{1}, client.Queue("q0"), client.JID(jid))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				committed[jid] = true
			} else {
				unknown[jid] = true
			}
			return false
		}
	}
	testkit.Await(t, "some deaths", dying(11))
	s.Kill()
	if b.restart != nil {
		must(t, b.restart(t.Context()))
	}
	s.Restart()
	writers.Wait()
	testkit.Await(t, "70 deaths", dying(deaths.Load()+70)) // some had no database
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
func TestEitherSideGoesBack(t *testing.T) { each(t, eitherSideGoesBack) }

func eitherSideGoesBack(t *testing.T, b *box) {
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
	b.exec(t, "UPDATE troupe_outbox_state SET until = 0")
	if _, err := b.relay(t, dying, 0).Once(call); err == nil {
		t.Fatal("the relay has gone on")
	}
	if n := len(b.jobs(t, "mail")); n != 2 {
		t.Fatalf("%d jobs", n)
	}
	b.rdb.FlushDB(t.Context())
	b.exec(t, "UPDATE troupe_outbox_state SET until = 0")
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
	b.exec(t, fmt.Sprintf("UPDATE troupe_outbox_state SET token = '%s', last = %d", token, last)) // as after a restore
	push(5)
	once(r, 1)
	if n := len(b.jobs(t, "mail")); n != 4 {
		t.Errorf("%d jobs after the database has gone back, want 4", n)
	}
}

// Redis loses its data between the push and the note of it, where rows are kept: a replay has those pushed that were done before, and the
// batch that was open is pushed again. Each job is there once.
func TestRedisGoesBackWhereRowsAreKept(t *testing.T) { each(t, redisGoesBackWhereRowsAreKept) }

func redisGoesBackWhereRowsAreKept(t *testing.T, b *box) {
	keeping := func(rdb redis.UniversalClient) *outbox.Relay {
		b.exec(t, "UPDATE troupe_outbox_state SET until = 0")
		r, err := outbox.NewRelay(b.db, client.New(rdb), outbox.RelayConfig{Dialect: b.name, Keep: time.Hour})
		must(t, err)
		return r
	}
	push := func(i int) {
		t.Helper()
		_, err := b.Push(t.Context(), b.db, welcome{i})
		must(t, err)
	}
	push(1)
	if n, err := keeping(b.rdb).Once(t.Context()); n != 1 || err != nil {
		t.Fatalf("relayed %d, %v", n, err)
	}
	push(2)
	call, cancel := context.WithCancel(t.Context())
	dying := redis.NewClient(b.rdb.Options())
	defer func() { _ = dying.Close() }()
	dying.AddHook(after{cancel})
	if _, err := keeping(dying).Once(call); err == nil {
		t.Fatal("the relay has gone on")
	}
	b.rdb.FlushDB(t.Context())
	if n, err := outbox.Replay(t.Context(), b.db, b.name, time.Now().Add(-time.Hour)); n != 1 || err != nil {
		t.Fatalf("replayed %d, %v", n, err)
	}
	r := keeping(b.rdb)
	for n := 1; n > 0; {
		var err error
		n, err = r.Once(t.Context())
		must(t, err)
	}
	var args []string
	for _, p := range b.jobs(t, "mail") {
		args = append(args, string(p.Args()))
	}
	if slices.Sort(args); fmt.Sprint(args) != "[[1] [2]]" {
		t.Errorf("jobs of %v", args)
	}
	if n := b.count(t, "troupe_outbox WHERE done IS NOT NULL"); n != 2 {
		t.Errorf("%d rows are kept", n)
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
