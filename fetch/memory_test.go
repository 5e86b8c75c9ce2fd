package fetch

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// fillUp has Redis refuse whatever needs memory.
func fillUp(t *testing.T, node *redis.Client) {
	t.Helper()
	harness.OK(t, node.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	addr := node.Options().Addr
	t.Cleanup(func() { // the server may be used again
		node := redis.NewClient(&redis.Options{Addr: addr})
		defer func() { _ = node.Close() }()
		node.ConfigSet(context.Background(), "maxmemory", "0")
	})
	harness.OK(t, node.ConfigSet(t.Context(), "maxmemory", "1").Err())
	if err := node.LPush(t.Context(), "other", "x").Err(); !redis.HasErrorPrefix(err, "OOM") && !redis.HasErrorPrefix(err, "MOVED") {
		t.Fatalf("a push: %v, expected OOM", err)
	}
}

// Out of memory Redis refuses whatever needs more. What has been accepted goes on:
// leases are renewed, jobs taken, settled and rescued, fetchers open and close.
func TestOutOfMemory(t *testing.T) {
	for name, cluster := range map[string]bool{"one server": false, "a cluster": true} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			var rdb redis.UniversalClient
			var node *redis.Client
			var lapsed func(id string)
			if cluster {
				node = redis.NewClient(&redis.Options{Addr: redistest.Alone(t).Addr, MaxRetries: -1})
				c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{node.Options().Addr}, MaxRedirects: -1})
				rdb, lapsed = c, func(id string) { lapse(t, c, id) }
			} else {
				node, _ = ownServer(t)
				rdb, lapsed = node, func(id string) { expire(t, node, id) }
			}
			defer func() { _, _ = node.Close(), rdb.Close() }()
			fillQueue(t, rdb, "a", 40)
			dying := testEnv(rdb, Strict{"a"})
			dying.Identity = "h:2:bb"
			dead := mustOpen(t, dying)
			mustTake(t, dead, 6)
			mustTake(t, dead, 6)
			other := testEnv(rdb, Strict{"a"})
			other.Identity = "h:3:cc"
			living := mustOpen(t, other)
			held := mustTake(t, living, 2)
			lapsed(dead.cur.id)
			fillUp(t, node)

			// its lease and the expiries are renewed, whatever state they are in
			rdb.ZRem(ctx, living.cur.common.Expiries, living.cur.id)
			if err := living.Renew(ctx); err != nil {
				t.Fatalf("renew: %v", err)
			}
			if left := rdb.PTTL(ctx, living.cur.common.Lease).Val(); left < 20*time.Second || rdb.ZScore(ctx, living.cur.common.Expiries, living.cur.id).Err() != nil {
				t.Errorf("the lease stands for %v", left)
			}

			done, err := testRescuer(t, rdb).Rescue(ctx)
			if err != nil || done.Units != 12 || done.Fetchers != 1 {
				t.Fatalf("rescue: %+v, %v", done, err)
			}
			late := mustOpen(t, renamed(dying)) // a new process
			var got []string
			for range 4 {
				units := mustTake(t, late, 12)
				got = append(got, payloads(units)...)
				settleAll(t, late, Move{Unit: units[0], To: ToRetry, Score: 1}, Move{Unit: units[1], To: ToDead, Score: 1},
					Move{Unit: units[2], To: ToSchedule, Score: 1}, Move{Unit: units[3], To: ToQueue}, Move{Unit: units[4], To: ToBack})
				mustTake(t, late, 0, units[5:]...)
			}
			first := slices.Clone(got[:12])
			slices.Sort(got)
			if !slices.Equal(first, upTo(12)) || len(slices.Compact(got)) != 38 {
				t.Errorf("took %q, then all of %q", first, got)
			}
			harness.Equal(t, "retries", rdb.ZCard(ctx, keys.Retry).Val(), 4)
			mustTake(t, living, 0, held...)
			for _, f := range []*fetcher{living, late} {
				if left, err := f.Close(ctx); left != 0 || err != nil {
					t.Errorf("close: %d, %v", left, err)
				}
			}
		})
	}
}

// Out of memory a result is dropped, and said so; its job is settled, and those who wait hear of it. With memory again
// it is kept.
func TestResultsAreDroppedOutOfMemory(t *testing.T) {
	rdb, _ := ownServer(t)
	ctx := t.Context()
	fillQueue(t, rdb, "a", 2)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	units := mustTake(t, f, 2)
	told := rdb.Subscribe(ctx, "troupe:result:j0")
	defer func() { _ = told.Close() }()
	harness.Must(told.Receive(ctx))(t)
	fillUp(t, rdb)
	settle := func(u Unit, jid string) *Effects {
		e := &Effects{Result: &KeptEnd{Key: keys.Result(jid), Value: []byte("result"), TTL: time.Minute}}
		settleAll(t, f, Move{Unit: u, To: ToNone, Effects: e})
		return e
	}
	if e := settle(units[0], "j0"); !strings.HasPrefix(e.Unkept, "OOM") {
		t.Errorf("why the result is not kept: %q", e.Unkept)
	}
	harness.Equal(t, "results", rdb.Exists(ctx, keys.Result("j0")).Val(), 0)
	harness.Equal(t, "what was told", harness.Must(told.ReceiveMessage(ctx))(t).Payload, "result")
	rdb.ConfigSet(ctx, "maxmemory", "0")
	if e := settle(units[1], "j1"); e.Unkept != "" {
		t.Errorf("with memory the result is not kept: %s", e.Unkept)
	}
	harness.Equal(t, "the result", rdb.Get(ctx, keys.Result("j1")).Val(), "result")
	left, err := f.Close(ctx)
	harness.OK(t, err)
	harness.Equal(t, "left in progress", left, 0)
}

func renamed(env Env) Env {
	env.Identity = "h:4:dd"
	return env
}

// Out of memory a wait becomes a look every half second: it neither spins nor sleeps
// through, and a job that is there is taken. Then it waits again.
func TestWaitsOutOfMemory(t *testing.T) {
	rdb, _ := ownServer(t)
	ctx := t.Context()
	f := mustOpen(t, testEnv(rdb, Strict{"a", "b"}))
	harness.OK(t, f.Wait(ctx, 10*time.Millisecond))
	fillUp(t, rdb)
	harness.Await(t, "the waits are refused", func() bool {
		_ = f.Wait(ctx, 200*time.Millisecond)
		f.mu.Lock()
		defer f.mu.Unlock()
		return !f.cur.waitedForLocked()
	})
	before := rdb.Info(ctx, "commandstats").Val()
	looks := 0
	for begun := time.Now(); time.Since(begun) < 3*time.Second; looks++ {
		harness.OK(t, f.Wait(ctx, time.Minute))
		if units := mustTake(t, f, 5); len(units) > 0 {
			t.Fatalf("took %v", units)
		}
	}
	if looks > 60 {
		t.Errorf("%d looks in three seconds", looks)
	}
	if n := calls(rdb.Info(ctx, "commandstats").Val(), "blmove") - calls(before, "blmove"); n > 60 {
		t.Errorf("%d waits were tried in three seconds", n)
	}
	rdb.ConfigSet(ctx, "maxmemory", "0")
	rdb.LPush(ctx, "queue:a", "0")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	var units []Unit
	harness.Await(t, "the job is taken", func() bool {
		_ = f.Wait(ctx, time.Minute)
		units = mustTake(t, f, 5)
		return len(units) > 0
	})
	rdb.ConfigSet(ctx, "maxmemory", "0")
	harness.Await(t, "it waits again", func() bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		mustTake(t, f, 5, units...)
		units = nil
		_ = f.Wait(ctx, time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.cur.waitedForLocked()
	})
	if left, err := f.Close(t.Context()); left != 0 || err != nil {
		t.Errorf("close: %d, %v", left, err)
	}
}
