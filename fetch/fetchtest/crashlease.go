package fetchtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// leaseRunsOut: a fetcher that was paused past its lease, and was not rescued
// yet, keeps its units and goes on.
func leaseRunsOut(r *rig) {
	want := r.push("a", 8)
	f := r.dying("default", fetch.Strict{"a"})
	units := r.take(f, 4)
	time.Sleep(shortLease + 50*time.Millisecond) // the lease is a clock of Redis
	r.settle(f, fetch.Move{Unit: units[0], To: fetch.ToDead, Score: 1})
	time.Sleep(shortLease + 50*time.Millisecond)
	r.must("renew", f.Renew(r.ctx))
	time.Sleep(shortLease + 50*time.Millisecond)
	units = append(units, r.take(f, 10, units[1], units[2])...)
	equal(r.t, "units", payloads(units), want)
	r.take(f, 0, units[3:]...)
	r.members(fetch.ToDead, want[0]+"@1")
	r.close(f)
}

// fenced: once a rescuer has put its units back, a fetcher learns it once,
// nothing it says about them counts, and it goes on under a new incarnation.
func fenced(r *rig) {
	for _, learn := range []string{"take", "settle", "renew"} {
		r.must("flush", r.rdb.FlushDB(r.ctx).Err())
		want := r.push("a", 6)
		f := r.dying("default", fetch.Strict{"a"})
		old := r.take(f, 4)
		r.rescueUntil("the units are back", func() bool { return len(r.queued("a")) == 6 })
		r.rescued("queue after the rescue", r.queued("a"), want)

		stale := []fetch.Move{
			{Unit: old[0], To: fetch.ToRetry, Score: 1}, {Unit: old[1], To: fetch.ToDead, Score: 1}, {Unit: old[2], To: fetch.ToQueue},
		}
		var err error
		switch learn {
		case "take":
			_, err = f.Take(r.ctx, 3, old)
		case "settle":
			_, err = f.Settle(r.ctx, stale)
		case "renew":
			err = f.Renew(r.ctx)
		}
		var fencedErr *fetch.FencedError
		if !errors.As(err, &fencedErr) {
			r.t.Fatalf("%s after the rescue: error %v, expected a FencedError", learn, err)
		}
		for _, u := range old {
			if u.Incarnation > fencedErr.Incarnation {
				r.t.Errorf("unit of incarnation %d is not covered by the error, which says %d", u.Incarnation, fencedErr.Incarnation)
			}
		}
		results, err := f.Settle(r.ctx, stale)
		r.must("settle of stale units", err)
		for i, result := range results {
			if result != fetch.NotMine {
				r.t.Errorf("stale move %d: result %d, expected NotMine", i, result)
			}
		}
		units := r.take(f, 10, old...)
		r.rescued("units of the new incarnation", payloads(units), want)
		for _, u := range units {
			if u.Incarnation <= fencedErr.Incarnation {
				r.t.Errorf("new unit has incarnation %d, the fenced one was %d", u.Incarnation, fencedErr.Incarnation)
			}
		}
		r.take(f, 0, old...) // late acks must not touch the new units
		r.must("renew", f.Renew(r.ctx))
		r.settle(f, fetch.Move{Unit: units[0], To: fetch.ToDead, Score: 2})
		r.take(f, 0, units[1:]...)
		r.members(fetch.ToRetry)
		r.members(fetch.ToDead, string(units[0].Payload)+"@2")
		r.close(f)
	}
}

// closeLeavesUnits: Close counts what is still in progress and leaves it where
// a rescuer finds it.
func closeLeavesUnits(r *rig) {
	want := r.push("a", 5)
	f := r.dying("default", fetch.Strict{"a"})
	units := r.take(f, 3)
	r.take(f, 0, units[1])
	left, err := f.Close(r.ctx)
	r.must("close", err)
	if left != 2 {
		r.t.Errorf("close: %d units left, expected 2", left)
	}
	r.rescueUntil("the units are back", func() bool { return len(r.queued("a")) == 4 })
	r.rescued("queue", r.queued("a"), append([]string{want[0]}, want[2:]...))
}

// redisForgets: after a restart of Redis without its data, what is in progress
// is written back, and is found by a rescuer when the process dies then.
func redisForgets(t *testing.T, h Harness) {
	start := func(t testing.TB) *redistest.Server { return redistest.Start(t) }
	if h.Server != nil {
		start = h.Server
	}
	server := start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	for _, learn := range []string{"take", "settle", "renew"} {
		r := setUpAt(t, h, rdb, server.URL(0))
		r.must("flush", rdb.FlushDB(r.ctx).Err())
		a := r.push("a", 3)
		large := strings.Repeat("big", 1<<20)
		r.must("push", r.Push(r.ctx, r.rdb, "b", []byte(large)))
		b := append([]string{large}, r.push("b", 699)...)
		env := r.env("default", fetch.Strict{"a", "b"})
		env.Lease = 2 * time.Second
		f := r.start(env)
		units := r.take(f, 3)
		r.takeAll(f, 400)

		server.Kill()
		if _, err := f.Take(r.ctx, 1, units[:1]); err == nil {
			t.Error("take without Redis: no error")
		}
		r.must("restart", server.Restart())
		r.until("redis takes writes", func() bool { return rdb.Incr(r.ctx, "fetchtest:up").Err() == nil })

		move := fetch.Move{Unit: units[1], To: fetch.ToRetry, Score: 1}
		switch learn {
		case "take":
			r.eventually("take", func(ctx context.Context) error { _, err := f.Take(ctx, 1, nil); return err })
		case "settle":
			r.eventually("settle", func(ctx context.Context) error { _, err := f.Settle(ctx, []fetch.Move{move}); return err })
		case "renew":
			r.eventually("renew", f.Renew)
		}
		r.take(f, 0, units[0])
		r.settle(f, move)
		r.members(fetch.ToRetry, a[1]+"@1")
		// Now it dies.
		r.rescueUntil("all is back", func() bool { return len(r.queued("a")) == 1 && len(r.queued("b")) == 700 })
		r.rescued("queue a", r.queued("a"), a[2:])
		r.rescued("queue b", r.queued("b"), b)
	}
}
