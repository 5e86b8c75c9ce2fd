package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redistest"
)

func testEnv(rdb redis.UniversalClient, queues Queues) Env {
	return Env{Redis: rdb, Identity: "h:1:aa", Capsule: "default", Queues: queues, Lease: time.Minute, Logger: zerolog.Nop()}
}

func mustOpen(t *testing.T, env Env) *reliable {
	t.Helper()
	f, err := NewReliable(env)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f.(*reliable)
}

func mustTake(t *testing.T, f Fetcher, n int, acks ...Unit) []Unit {
	t.Helper()
	units, err := f.Take(t.Context(), n, acks)
	if err != nil {
		t.Fatal(err)
	}
	return units
}

func TestNewReliableChecksItsEnv(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	for want, change := range map[string]func(*Env){
		"expected a *redis.Client": func(e *Env) { e.Redis = redis.NewRing(&redis.RingOptions{}) },
		"Redis is a <nil>":         func(e *Env) { e.Redis = nil },
		"expected both":            func(e *Env) { e.Identity = "" },
		"contains }:":              func(e *Env) { e.Capsule = "x}:y" },
		"expected a millisecond":   func(e *Env) { e.Lease = -1 },
		"queues: nil":              func(e *Env) { e.Queues = nil },
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
	f := mustOpen(t, testEnv(rdb, Weighted{"b": 1, "a<": 2}))
	const id = "h:1:aa#default.1"
	if got := rdb.HGetAll(ctx, keys.Procs).Val(); len(got) != 1 || got[id] != `["a\u003c","b"]` {
		t.Errorf("registry: %q", got)
	}
	if got := rdb.Get(ctx, "troupe:lease:"+id).Val(); got != "1" {
		t.Errorf("lease: %q", got)
	}
	expiry := time.UnixMilli(int64(rdb.ZScore(ctx, keys.Leases, id).Val()))
	if ahead := time.Until(expiry); ahead < 50*time.Second || ahead > 70*time.Second {
		t.Errorf("index says %v from now, expected about a minute", ahead)
	}
	rdb.LPush(ctx, "queue:b", "0", "1")
	units := mustTake(t, f, 2)
	if got := inPlace(t, rdb, "troupe:wip:{queue:b}:"+id); len(got) != 2 || got["1000"] != "0" || got["1001"] != "1" {
		t.Errorf("in progress: %q", got)
	}
	mustTake(t, f, 0, units...)
	if _, err := f.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if left := rdb.Keys(ctx, "*").Val(); len(left) > 0 {
		t.Errorf("keys after close: %q", left)
	}
}

func TestTakeIsBounded(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	fillQueue(t, rdb, "a", maxTake+200)
	units := mustTake(t, f, 1<<40)
	if len(units) != maxTake {
		t.Errorf("took %d, expected %d", len(units), maxTake)
	}
	units = mustTake(t, f, 1<<40, units...)
	if len(units) != 200 {
		t.Errorf("took %d, expected 200", len(units))
	}
	mustTake(t, f, 0, units...)
	noPlaces(t, rdb)
}

// A private place that is not a hash: its queue cannot be served and says so,
// others go on, and no job leaves the queue.
func TestWrongTypedPrivatePlace(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	var log bytes.Buffer
	env := testEnv(rdb, Strict{"a", "b"})
	env.Logger = zerolog.New(&log)
	f := mustOpen(t, env)
	rdb.Set(ctx, f.cur.wips[0], "x", 0)
	rdb.LPush(ctx, "queue:a", "a0", "a1")
	rdb.LPush(ctx, "queue:b", "b0", "b1")
	for i := range 2 {
		units := mustTake(t, f, 1, Unit{Queue: "a", Receipt: "1000", Incarnation: 1})
		if len(units) != 1 || string(units[0].Payload) != fmt.Sprint("b", i) {
			t.Fatalf("units %v", units)
		}
	}
	if n := rdb.LLen(ctx, "queue:a").Val(); n != 2 {
		t.Errorf("queue a holds %d, expected 2", n)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), `"queue":"a"`) {
		t.Errorf("log, expected one line about a:\n%s", log.String())
	}
}

// A move to the back needs the list of queues and the queue: where one of them
// refuses, nothing has moved, and nothing is doubled when it is mended.
func TestWrongTypedKeysRefuseAMoveToTheBack(t *testing.T) {
	for name, factory := range map[string]Factory{"reliable": NewReliable, "basic": NewBasic} {
		rdb, _ := redistest.New(t)
		ctx := t.Context()
		f, err := factory(testEnv(rdb, Strict{"a"}))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Open(ctx); err != nil {
			t.Fatal(err)
		}
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
			t.Errorf("%s: mended: %v", name, err)
		}
		if got := list(t, rdb, "a"); len(got) != 1 || got[0] != "1" {
			t.Errorf("%s: queue %q", name, got)
		}
		if left, err := f.Close(ctx); left != 0 || err != nil {
			t.Errorf("%s: close: %d, %v", name, left, err)
		}
	}
}

// Whatever the order of its moves, place writes all or none.
func TestPlaceWritesAllOrNone(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	names := []string{keys.Retry, keys.Schedule, keys.Dead, keys.Queues, "queue:a"}
	for _, key := range []string{keys.Queues, "queue:a", keys.Dead} {
		rdb.Set(ctx, key, "x", 0)
		err := placeScript.Run(ctx, rdb, names, int(ToRetry), 1, "", "job", "", "",
			int(ToDead), 1, "", "job", "", "", int(ToBack), 5, "a", "job", "", "").Err()
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
		f, err := factory(testEnv(rdb, Strict{"a"}))
		if err != nil {
			t.Fatal(err)
		}
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
		if _, err := f.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// Redis away: every call says so, at once and without a panic; Wait too.
func TestRedisAway(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = rdb.Close() }()
	for name, factory := range map[string]Factory{"reliable": NewReliable, "basic": NewBasic} {
		f, err := factory(testEnv(rdb, Strict{"a"}))
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		u := Unit{Queue: "a", Receipt: "1000", Incarnation: 1}
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
	if err := f.gate.enterAlone(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.Take(ctx, 1, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("take: %v", err)
	}
	if err := f.gate.enterAlone(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("enterAlone: %v", err)
	}
	f.gate.leaveAlone()
	if err := f.gate.enterAlone(t.Context()); err != nil {
		t.Errorf("the gate is not free again: %v", err)
	}
	f.gate.leaveAlone()
	mustTake(t, f, 1)
}

// Out of memory, Redis refuses whatever needs more; taking, settling, rescuing
// still work, and waiting neither spins nor sleeps through.
func TestOutOfMemory(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	ctx := t.Context()
	for i := range 20 {
		rdb.LPush(ctx, "queue:a", fmt.Sprint(i))
	}
	dying := testEnv(rdb, Strict{"a"})
	dying.Identity, dying.Lease = "h:2:bb", 100*time.Millisecond
	mustTake(t, mustOpen(t, dying), 2)

	if err := rdb.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.LPush(ctx, "queue:a", "x").Err(); !redis.HasErrorPrefix(err, "OOM") {
		t.Fatalf("a push: %v, expected OOM", err)
	}
	r, err := NewRescuer(RescuerConfig{Redis: rdb, Lease: time.Second, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	for rescued := 0; rescued < 2; {
		done, err := r.Rescue(ctx) // may come before the lease is over
		if err != nil {
			t.Fatalf("rescue: %+v, %v", done, err)
		}
		rescued += done.Units
	}
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	begun := time.Now()
	if err := f.peeks.wait(ctx, time.Minute); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < pollTime || took > 20*pollTime {
		t.Errorf("wait took %v, expected about %v", took, pollTime)
	}
	if err := f.Wait(ctx, time.Minute); err != nil {
		t.Fatal(err)
	}
	units := mustTake(t, f, 3)
	results, err := f.Settle(ctx, []Move{{Unit: units[0], To: ToRetry, Score: 1}, {Unit: units[1], To: ToQueue}})
	if err != nil || results[0] != Moved || results[1] != Moved {
		t.Errorf("settle: %v, %v", results, err)
	}
	mustTake(t, f, 0, units[2])
	if left, err := f.Close(ctx); left != 0 || err != nil {
		t.Errorf("close: %d, %v", left, err)
	}
}
