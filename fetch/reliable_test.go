package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestNewReliableChecksItsEnv(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	for want, change := range map[string]func(*Env){
		"expected a *redis.Client":      func(e *Env) { e.Redis = redis.NewRing(&redis.RingOptions{}) },
		"Redis is nil, expected":        func(e *Env) { e.Redis = nil },
		"Redis is nil":                  func(e *Env) { e.Redis = (*redis.Client)(nil) },
		"expected both":                 func(e *Env) { e.Identity = "" },
		"expected a millisecond":        func(e *Env) { e.Lease = -1 },
		"Waiters is 9, expected 0 to 8": func(e *Env) { e.Waiters = 9 },
		"Bytes is -1":                   func(e *Env) { e.Bytes = -1 },
		"queues: nil":                   func(e *Env) { e.Queues = nil },
	} {
		env := testEnv(rdb, Strict{"a"})
		change(&env)
		if _, err := NewReliable(env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected one with %q", err, want)
		}
	}
}

// The keys of a fetcher are what other processes and tools look for.
func TestKeysOfAFetcher(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	env := testEnv(rdb, Weighted{"b": 1, "a<": 2})
	env.Lease = time.Minute
	f := mustOpen(t, env)
	const id = "h:1:aa#default.1"
	if got := rdb.HGetAll(ctx, "troupe:places").Val(); len(got) != 1 || got[id] != `{"v":2,"queues":["a\u003c","b"]}` {
		t.Errorf("registry: %q", got)
	}
	harness.Equal(t, "lease", rdb.Get(ctx, "troupe:lease:"+id).Val(), "1")
	if left := rdb.PTTL(ctx, "troupe:lease:"+id).Val(); left < 50*time.Second || left > time.Minute {
		t.Errorf("the lease ends in %v", left)
	}
	expiry := time.UnixMilli(int64(rdb.ZScore(ctx, "troupe:expiries", id).Val()))
	if ahead := time.Until(expiry); ahead < 50*time.Second || ahead > 70*time.Second {
		t.Errorf("expiries say %v from now, expected about a minute", ahead)
	}
	rdb.LPush(ctx, "queue:b", "0", "1")
	units := mustTake(t, f, 2)
	index := rdb.HGetAll(ctx, "troupe:inprogress:"+id).Val()
	if index["!"] != "1 1" || !strings.HasPrefix(index["w:b"], "b ") || !strings.HasPrefix(index["w:a<"], "a< ") || len(index) != 4 {
		t.Errorf("index: %q", index)
	}
	var queue string
	var at int64
	if n, err := fmt.Sscan(index["1.1"], &queue, &at); n != 2 || queue != "b" || time.Since(time.UnixMilli(at)).Abs() > time.Minute {
		t.Errorf("claim 1.1 is %q (%v), expected the queue and ms", index["1.1"], err)
	}
	harness.EqualList(t, "in progress, expected the oldest at the right", rdb.LRange(ctx, "troupe:claim:"+id+":1.1", 0, -1).Val(), []string{"1", "0"})
	mustTake(t, f, 0, units...)
	harness.Must(f.Close(ctx))(t)
	if left := rdb.Keys(ctx, "*").Val(); len(left) > 0 {
		t.Errorf("keys after close: %q", left)
	}
}

func TestTakeIsBounded(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	fillQueue(t, rdb, "a", maxTake+200)
	units := mustTake(t, f, 1<<40)
	if got := payloads(units); !slices.Equal(got, upTo(maxTake)) {
		t.Errorf("took %d, expected the oldest %d", len(units), maxTake)
	}
	units = mustTake(t, f, 1<<40, units...)
	harness.Equal(t, "took", len(units), 200)
	mustTake(t, f, 0, units...)
	noClaims(t, rdb)
}

// An index that is not a hash stops its fetcher, says so, and costs no job.
func TestWrongTypedPlace(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	fillQueue(t, rdb, "a", 5)
	units := mustTake(t, f, 2)
	key := f.cur.indexes[0].key
	rdb.Del(ctx, key)
	rdb.Set(ctx, key, "x", 0)
	for range 3 {
		if _, err := f.Take(ctx, 1, units[:1]); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Fatalf("take: %v, expected WRONGTYPE", err)
		}
	}
	harness.Equal(t, "the queue holds", rdb.LLen(ctx, "queue:a").Val(), 3)
	rdb.Del(ctx, key)
	more := mustTake(t, f, 5, units...)
	harness.EqualList(t, "restored, it took", payloads(more), []string{"2", "3", "4"})
	mustTake(t, f, 0, more...)
	noClaims(t, rdb)
}

// A move to the back needs the list of queues and the queue: where one of them
// refuses, nothing has moved, and nothing is doubled when it is restored.
func TestWrongTypedKeysRefuseAMoveToTheBack(t *testing.T) {
	for name, factory := range map[string]Factory{"reliable": NewReliable, "basic": NewBasic} {
		rdb, _ := redistest.New(t)
		ctx := t.Context()
		f := harness.Must(factory(testEnv(rdb, Strict{"a"})))(t)
		harness.OK(t, f.Open(ctx))
		rdb.LPush(ctx, "queue:a", "0")
		move := []Move{{Unit: mustTake(t, f, 1)[0], To: ToBack, Payload: []byte("1")}}
		for _, key := range []string{keys.Queues, "queue:a"} {
			rdb.Set(ctx, key, "x", 0)
			for range 2 {
				if _, err := f.Settle(ctx, move); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
					t.Errorf("%s: %s spoiled: error %v", name, key, err)
				}
			}
			rdb.Del(ctx, key)
		}
		if _, err := f.Settle(ctx, move); err != nil {
			t.Errorf("%s: restored: %v", name, err)
		}
		harness.EqualList(t, name+": queue", queued(t, rdb, "a"), []string{"1"})
		if left, err := f.Close(ctx); left != 0 || err != nil {
			t.Errorf("%s: close: %d, %v", name, left, err)
		}
	}
}

// A destination that refuses some moves keeps these in their list, and no others, be its
// reply lost or not.
func TestARefusedDestination(t *testing.T) {
	for name, lost := range map[string]bool{"answered": false, "the reply is lost": true} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := redistest.New(t)
			ctx := t.Context()
			l := &lostReply{}
			f := mustOpen(t, testEnv(hooked(t, rdb, l), Strict{"a"}))
			known(t, rdb)
			fillQueue(t, rdb, "a", 9)
			units := mustTake(t, f, 9)
			rdb.Set(ctx, keys.Retry, "no set", 0)
			moves := make([]Move, 0, 8)
			for i, u := range units[:8] {
				moves = append(moves, Move{Unit: u, To: []Destination{ToRetry, ToDead, ToSchedule, ToBack}[i%4], Score: 1})
			}
			if lost {
				l.arm(settleScript.Hash(), true)
			}
			for range 2 {
				_, err := f.Settle(ctx, moves)
				if err == nil || !lost && !strings.Contains(err.Error(), "to retry of queue a: WRONGTYPE") {
					t.Fatalf("settle: %v", err)
				}
				lost = false
			}
			harness.EqualList(t, "in progress", inProgress(t, rdb, f.cur.indexes[0]), []string{"0", "4", "8"})
			rdb.Del(ctx, keys.Retry)
			settleAll(t, f, moves...)
			for key, want := range map[string][]string{keys.Retry: {"0", "4"}, keys.Dead: {"1", "5"}, keys.Schedule: {"2", "6"}} {
				if got := rdb.ZRange(ctx, key, 0, -1).Val(); !slices.Equal(got, want) {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
			harness.EqualList(t, "queue", queued(t, rdb, "a"), []string{"3", "7"})
			mustTake(t, f, 0, units[8])
			noClaims(t, rdb)
		})
	}
}

// Whatever the order of its moves, the script store writes all or none.
func TestPlaceWritesAllOrNone(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	names := []string{keys.Retry, keys.Schedule, keys.Dead, keys.Queues, "queue:a"}
	for _, key := range []string{keys.Queues, "queue:a", keys.Dead} {
		rdb.Set(ctx, key, "x", 0)
		err := storeScript.Run(ctx, rdb, names, int(ToRetry), 1, "", "job", "",
			int(ToDead), 1, "", "job", "", int(ToBack), 5, "a", "job", "").Err()
		if !redis.HasErrorPrefix(err, "WRONGTYPE") {
			t.Errorf("%s spoiled: error %v", key, err)
		}
		if left := rdb.Keys(ctx, "*").Val(); len(left) != 1 {
			t.Errorf("%s spoiled: keys %q", key, left)
		}
		rdb.Del(ctx, key)
	}
}

// A key `paused` of another type pauses nothing and stops nothing.
func TestWrongTypedPausedPausesNothing(t *testing.T) {
	for name, factory := range map[string]Factory{"reliable": NewReliable, "basic": NewBasic} {
		rdb, _ := redistest.New(t)
		ctx := t.Context()
		f := harness.Must(factory(testEnv(rdb, Strict{"a"})))(t)
		rdb.SAdd(ctx, keys.Paused, "a")
		rdb.LPush(ctx, "queue:a", "0")
		if units := mustTake(t, f, 1); len(units) != 0 {
			t.Errorf("%s: took %v of a paused queue", name, units)
		}
		rdb.Set(ctx, keys.Paused, "a", 0)
		if err := f.Wait(ctx, time.Millisecond); err != nil {
			t.Errorf("%s: wait: %v", name, err)
		}
		mustTake(t, f, 0, mustTake(t, f, 1)...)
		if n := rdb.LLen(ctx, "queue:a").Val(); n != 0 {
			t.Errorf("%s: the job was not taken", name)
		}
		harness.Must(f.Close(ctx))(t)
	}
}

// Redis away: every call says so, at once and without a panic; Wait too.
func TestRedisAway(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = rdb.Close() }()
	for name, factory := range map[string]Factory{"reliable": NewReliable, "basic": NewBasic} {
		f := harness.Must(factory(testEnv(rdb, Strict{"a"})))(t)
		ctx := t.Context()
		u := Unit{Queue: "a", Receipt: "1.1.0", Incarnation: 1}
		_, takeErr := f.Take(ctx, 1, nil)
		_, settleErr := f.Settle(ctx, []Move{{Unit: u, To: ToDead}})
		waitErr := f.Wait(ctx, time.Minute)
		for call, err := range map[string]error{"take": takeErr, "settle": settleErr, "wait": waitErr} {
			if _, ok := errors.AsType[*net.OpError](err); !ok {
				t.Errorf("%s: %s: error %v, expected one of the network", name, call, err)
			}
		}
		if f.Durable() {
			if err := f.Open(ctx); err == nil {
				t.Errorf("%s: open: no error", name)
			}
			if err := f.Renew(ctx); err == nil {
				t.Errorf("%s: renew: no error", name)
			}
		}
		_, _ = f.Close(ctx)
		// A fetcher that never said anything to Redis needs none to close.
		f, _ = factory(testEnv(rdb, Strict{"a"}))
		if left, err := f.Close(ctx); left != 0 || err != nil {
			t.Errorf("%s: close: %d, %v", name, left, err)
		}
	}
}

// Calls respect their context while they wait for others.
func TestCallsEndWithTheirContext(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	p := f.cur.indexes[0]
	p.callLock <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, takeErr := f.Take(ctx, 1, nil)
	for call, err := range map[string]error{"take": takeErr, "renew": f.Renew(ctx)} {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", call, err)
		}
	}
	<-p.callLock
	mustTake(t, f, 1)
}
