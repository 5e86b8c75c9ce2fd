package fetch

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
)

// waitFaults loses the replies of blocked moves, or holds the moves back: as a link does
// that breaks, and a socket in which a command lies until Redis reads on.
type waitFaults struct {
	mu      sync.Mutex
	lose    bool // replies
	hold    bool // requests
	release []func()
	struck  int
}

func (w *waitFaults) set(lose, hold bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose, w.hold = lose, hold
}

func (w *waitFaults) times() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.struck
}

// letGo sends what was held back.
func (w *waitFaults) letGo() {
	w.mu.Lock()
	release := w.release
	w.release = nil
	w.mu.Unlock()
	for _, send := range release {
		send()
	}
}

func (w *waitFaults) client(tb testing.TB, rdb *redis.Client) *redis.Client {
	o := *rdb.Options()
	o.MaxRetries = -1
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &waitConn{Conn: conn, faults: w}, err
	}
	client := redis.NewClient(&o)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

type waitConn struct {
	net.Conn
	faults     *waitFaults
	lost, kept bool
}

func (c *waitConn) Write(b []byte) (int, error) {
	w := c.faults
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(b, []byte("blmove")) {
		switch {
		case w.hold:
			request := bytes.Clone(b)
			c.kept, w.struck = true, w.struck+1
			w.release = append(w.release, func() { _, _ = c.Conn.Write(request) })
			return 0, io.EOF
		case w.lose:
			c.lost = true
		}
	}
	return c.Conn.Write(b)
}

func (c *waitConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.lost && err == nil {
		c.faults.mu.Lock()
		c.faults.struck++
		c.faults.mu.Unlock()
		_ = c.Conn.Close()
		return 0, io.EOF
	}
	return n, err
}

func (c *waitConn) Close() error {
	if c.kept {
		return nil
	}
	return c.Conn.Close()
}

// waitFor waits and takes until n jobs have come, acking none.
func waitFor(t *testing.T, f Fetcher, n int) (units []Unit) {
	t.Helper()
	harness.Await(t, "the jobs have come", func() bool {
		_ = f.Wait(t.Context(), time.Second)
		more, err := f.Take(t.Context(), n-len(units), nil)
		units = append(units, more...)
		return err == nil && len(units) >= n
	})
	return units
}

// blockedMoves is how many moves are open, as the server sees it.
func blockedMoves(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	n := 0
	for line := range strings.Lines(rdb.ClientList(t.Context()).Val()) {
		if strings.Contains(line, "cmd=blmove") && strings.Contains(line, "flags=b") {
			n++
		}
	}
	return n
}

// A move is served, its reply is lost, and the waiter finds what it brought, once.
func TestAMoveWhoseReplyIsLost(t *testing.T) {
	rdb, _ := ownServer(t)
	ctx := t.Context()
	w := &waitFaults{lose: true}
	f := mustOpen(t, testEnv(w.client(t, rdb), Strict{"a"}))
	for _, jobs := range [][]string{{"0"}, {"1", "2", "3"}} {
		time.AfterFunc(50*time.Millisecond, func() { rdb.LPush(context.Background(), "queue:a", anys(jobs)...) })
		units := waitFor(t, f, len(jobs))
		got := payloads(units)
		slices.Sort(got)
		harness.EqualList(t, "took", got, jobs)
		mustTake(t, f, 0, units...)
	}
	if w.times() == 0 {
		t.Error("no reply was lost")
	}
	if more := mustTake(t, f, 5); len(more) != 0 {
		t.Errorf("then took %q", payloads(more))
	}
	if left, err := f.Close(ctx); left != 0 || err != nil {
		t.Errorf("close: %d, %v", left, err)
	}
	noClaims(t, rdb)
}

// A move that lay in a socket comes when the waiter has long gone on: what it brings is
// found, while its process waits, and while its slots are full.
func TestAMoveThatComesLate(t *testing.T) {
	for name, waits := range map[string]bool{"waiting": true, "full": false} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := ownServer(t)
			w := &waitFaults{hold: true}
			env := testEnv(w.client(t, rdb), Strict{"a"})
			env.Lease = 3 * time.Second
			f := mustOpen(t, env)
			harness.Await(t, "a move is held back", func() bool {
				_ = f.Wait(t.Context(), 50*time.Millisecond)
				return w.times() > 0
			})
			w.set(false, false)
			if waits {
				harness.Await(t, "it waits again", func() bool {
					_ = f.Wait(t.Context(), 50*time.Millisecond)
					return blockedMoves(t, rdb) > 0
				})
			}
			list := f.cur.indexes[0].waiters[0].list.key
			push := func() { rdb.LPush(t.Context(), "queue:a", "0", "1") }
			if !waits { // the late move finds a job, however long it takes to come
				push()
			}
			w.letGo()
			if waits {
				push()
			}
			harness.Await(t, "both are moved", func() bool {
				if waits {
					_ = f.Wait(t.Context(), 50*time.Millisecond)
				}
				_ = f.Renew(t.Context())
				return rdb.LLen(t.Context(), list).Val() == 2 || !waits && rdb.LLen(t.Context(), "queue:a").Val() == 1
			})
			var got []string
			harness.Await(t, "both are found", func() bool {
				_ = f.Renew(t.Context())
				if waits {
					_ = f.Wait(t.Context(), 50*time.Millisecond)
				}
				units := mustTake(t, f, 5)
				mustTake(t, f, 0, units...)
				got = append(got, payloads(units)...)
				return len(got) >= 2
			})
			if slices.Sort(got); !slices.Equal(got, []string{"0", "1"}) {
				t.Errorf("took %q", got)
			}
			if left, err := f.Close(t.Context()); left != 0 || err != nil {
				t.Errorf("close: %d, %v", left, err)
			}
			noClaims(t, rdb)
		})
	}
}

// A queue that is found paused is not waited for: also the move that is open ends, and takes nothing
// that is pushed from now on.
func TestAPauseEndsAnOpenMove(t *testing.T) {
	rdb, _ := ownServer(t)
	ctx := t.Context()
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	w := f.cur.indexes[0].waiters[0]
	waits, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for f.Wait(waits, time.Minute) == nil {
		}
	}()
	harness.Await(t, "an open move", func() bool { return blockedMoves(t, rdb) == 1 })
	harness.Await(t, "it is asked to end", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.pauseLocked(0, false)
		f.pauseLocked(0, true) // as a Take that reads it
		return w.open && w.ending
	})
	harness.Await(t, "no open move", func() bool { return blockedMoves(t, rdb) == 0 })
	rdb.LPush(ctx, "queue:a", "0")
	f.mu.Lock()
	f.pauseLocked(0, false)
	f.mu.Unlock()
	harness.Await(t, "the job is moved", func() bool { return rdb.LLen(ctx, "queue:a").Val() == 0 })
	stop()
	<-ended
	if units := mustTake(t, f, 1); len(units) != 1 {
		t.Errorf("took %q", payloads(units))
	}
	_, _ = f.Close(ctx)
}

// After a rescue, or after its process has left, a move that is open or comes late is
// refused by Redis, and the job stays where the next one gets it.
func TestAMoveAfterTheEnd(t *testing.T) {
	for name, c := range map[string]struct{ leaves, late bool }{
		"open, rescued": {false, false}, "late, rescued": {false, true}, "late, left": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := ownServer(t)
			ctx := t.Context()
			w := &waitFaults{hold: c.late}
			f := mustOpen(t, testEnv(w.client(t, rdb), Strict{"a"}))
			go func() {
				for f.Wait(context.WithoutCancel(ctx), time.Minute) == nil { // until the fence, or its end
				}
			}()
			harness.Await(t, "a move is there", func() bool { return w.times() > 0 || blockedMoves(t, rdb) > 0 })
			list := f.cur.indexes[0].waiters[0].list.key
			if c.leaves {
				w.set(false, false)
				if left, err := f.Close(ctx); left != 0 || err != nil {
					t.Fatalf("close: %d, %v", left, err)
				}
			} else {
				expire(t, rdb, f.cur.id)
				mustRescue(t, testRescuer(t, rdb).Rescue)
			}
			if got := rdb.Get(ctx, list).Val(); got != "closed" {
				t.Fatalf("the waiting list holds %q", got)
			}
			w.letGo()
			rdb.LPush(ctx, "queue:a", "0", "1")
			time.Sleep(50 * time.Millisecond) // Redis answers the late ones
			env := testEnv(rdb, Strict{"a"})
			env.Identity = "h:9:zz"
			units := mustTake(t, mustOpen(t, env), 5)
			harness.EqualList(t, "the next one took", payloads(units), []string{"0", "1"})
			if ttl := rdb.TTL(ctx, list).Val(); ttl < 23*time.Hour || ttl > 24*time.Hour {
				t.Errorf("the list stays closed for %v", ttl)
			}
			_, _ = f.Close(ctx)
		})
	}
}

// A process that is killed while its waits are open attracts nothing any more, or what it
// got is rescued: the next one has all.
func TestAPushToADeadMachine(t *testing.T) {
	rdb, _ := ownServer(t)
	ctx := t.Context()
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	list := f.cur.indexes[0].waiters[0].list.key
	o := *rdb.Options()
	o.ReadTimeout = time.Minute
	machine := redis.NewClient(&o) // its wait is open, nobody reads what comes
	defer func() { _ = machine.Close() }()
	go machine.BLMove(context.WithoutCancel(ctx), "queue:a", list, "RIGHT", "LEFT", time.Minute)
	harness.Await(t, "it waits", func() bool { return blockedMoves(t, rdb) > 0 })
	rdb.LPush(ctx, "queue:a", "0", "1")
	if got := popped(t, rdb, list); !slices.Equal(got, []string{"0"}) {
		t.Fatalf("it attracted %q", got)
	}
	expire(t, rdb, f.cur.id)
	if done := mustRescue(t, testRescuer(t, rdb).Rescue); done.Units != 1 {
		t.Errorf("rescued %+v", done)
	}
	harness.EqualList(t, "queue", queued(t, rdb, "a"), []string{"0", "1"})
}

// Who may not end a wait of its own lets it run out; who may not read its number, too.
func TestAUserWhoMayNotUnblock(t *testing.T) {
	rdb, _ := ownServer(t)
	ctx := t.Context()
	harness.OK(t, rdb.Do(ctx, "acl", "setuser", "narrow", "reset", "on", ">pw", "~*", "&*", "+@all", "-@dangerous", "-client").Err())
	o := *rdb.Options()
	o.Username, o.Password, o.MaxRetries = "narrow", "pw", -1
	narrow := redis.NewClient(&o)
	defer func() { _ = narrow.Close() }()
	f := mustOpen(t, testEnv(narrow, Strict{"a"}))
	harness.OK(t, f.Wait(ctx, 50*time.Millisecond))
	harness.Await(t, "the wait runs out", func() bool { return blockedMoves(t, rdb) == 0 })
	rdb.LPush(ctx, "queue:a", "0")
	mustTake(t, f, 0, waitFor(t, f, 1)...)
	if left, err := f.Close(ctx); left != 0 || err != nil {
		t.Errorf("close: %d, %v", left, err)
	}
	for _, key := range rdb.Keys(ctx, "*").Val() {
		t.Errorf("left: %s, %q", key, rdb.Get(ctx, key).Val())
	}
}

// A queue of the wrong type is not waited for in a tight loop, and does not stop others.
func TestAWaitOnWhatIsNoQueue(t *testing.T) {
	rdb, _ := ownServer(t)
	ctx := t.Context()
	rdb.Set(ctx, keys.Queue("a"), "no list", 0)
	f := mustOpen(t, testEnv(rdb, Strict{"a", "b"}))
	before := calls(rdb.Info(ctx, "commandstats").Val(), "blmove")
	time.AfterFunc(1200*time.Millisecond, func() { rdb.LPush(context.Background(), "queue:b", "0") })
	units := waitFor(t, f, 1)
	if n := calls(rdb.Info(ctx, "commandstats").Val(), "blmove") - before; n > 12 {
		t.Errorf("%d moves were tried within little more than a second", n)
	}
	mustTake(t, f, 0, units...)
	if left, err := f.Close(ctx); left != 0 || err != nil {
		t.Errorf("close: %d, %v", left, err)
	}
}

// A full process gives back what its wait has brought, and the reply is lost: the job is in
// its queue, and its own next take gets it from there, once.
func TestAGiveBackWhoseReplyIsLost(t *testing.T) {
	for _, applied := range []bool{true, false} {
		rdb, _ := ownServer(t)
		l := &lostReply{}
		f := mustOpen(t, testEnv(hooked(t, rdb, l), Strict{"a"}))
		known(t, rdb)
		l.arm(hashOf("settle"), applied)
		time.AfterFunc(50*time.Millisecond, func() { rdb.LPush(context.Background(), "queue:a", "0") })
		harness.Await(t, "it is given back", func() bool {
			if rdb.Exists(t.Context(), "queue:a", f.cur.indexes[0].waiters[0].list.key).Val() == 0 {
				_ = f.Wait(t.Context(), 20*time.Millisecond)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.struck > 0
		})
		var got []Unit
		harness.Await(t, "it is taken", func() bool {
			got = append(got, mustTake(t, f, 5)...)
			return len(got) > 0
		})
		if got = append(got, mustTake(t, f, 5)...); len(got) != 1 {
			t.Errorf("applied %v: took %q", applied, payloads(got))
		}
		mustTake(t, f, 0, got...)
		noClaims(t, rdb)
	}
}

// A take with acks may get what a blocked move has brought before the Wait that it was for has
// looked: the waiter makes the next move all the same.
func TestAJobIsTakenBeforeItsWaitHasLooked(t *testing.T) {
	rdb, _ := ownServer(t)
	env := testEnv(rdb, Strict{"a"})
	env.Lease = 10 * time.Minute // nothing else wakes the waiter for a third of it
	f := mustOpen(t, env)
	f.mu.Lock()
	f.waits++ // a Wait that does not look
	f.startLocked(f.cur)
	f.wakeLocked()
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.endWaitLocked()
	}()
	var acks []Unit
	for i := range 10 {
		harness.Await(t, "it waits", func() bool { return blockedMoves(t, rdb) == 1 })
		rdb.LPush(t.Context(), "queue:a", i)
		harness.Await(t, "it is in hand", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(f.stash) == 1
		})
		acks = mustTake(t, f, 1, acks...)
	}
	mustTake(t, f, 0, acks...)
}

// A wait that nobody wants any more ends though its move has not come to Redis yet when Redis
// is asked to end it.
func TestAWaitThatEndsBeforeItsMoveHasBegun(t *testing.T) {
	rdb, _ := ownServer(t)
	begun, ended := make(chan time.Time, 1), make(chan time.Time, 1)
	env := testEnv(rdb, Strict{"a"})
	env.OnClient = func(c redis.UniversalClient) { c.AddHook(slowMoves{begun, ended}) }
	f := mustOpen(t, env)
	harness.OK(t, f.Wait(t.Context(), time.Millisecond))
	if open := (<-ended).Sub(<-begun); open > shortWait/2 {
		t.Errorf("it was open for %v", open)
	}
}

// slowMoves sends a blocked move long after the waits have been asked to end.
type slowMoves struct{ begun, ended chan time.Time }

func (slowMoves) DialHook(next redis.DialHook) redis.DialHook { return next }

func (slowMoves) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s slowMoves) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "blmove" {
			return next(ctx, cmd)
		}
		time.Sleep(10 * graceTime) // a Redis that is far away: its scripts are real ones
		s.begun <- time.Now()
		err := next(ctx, cmd)
		s.ended <- time.Now()
		return err
	}
}
