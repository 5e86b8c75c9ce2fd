package fetchtest

import (
	"context"
	"errors"
	"time"

	"github.com/troupehq/troupe/fetch"
)

// pausedQueue: from a paused queue nothing is taken, the others go on; what is
// in progress of it is settled as ever. It comes back when it is unpaused.
func pausedQueue(r *rig) {
	for name, queues := range map[string]fetch.Queues{"strict": fetch.Strict{"a", "b"}, "weighted": fetch.Weighted{"a": 99, "b": 1}} {
		a, b := r.push("a", 20), r.push("b", 20)
		f := r.start(r.env(name, queues))
		var u []fetch.Unit
		for len(u) < 4 { // of a; weighted draws some of b
			for _, unit := range r.take(f, 4-len(u)) {
				if unit.Queue == "a" {
					u = append(u, unit)
				} else {
					r.settle(f, fetch.Move{Unit: unit, To: fetch.ToQueue})
				}
			}
		}
		r.pause("a", true)
		got := r.takeAll(f, 7)
		equal(r.t, name+": units while a is paused", payloads(got), b)
		r.settle(f,
			fetch.Move{Unit: u[0], To: fetch.ToQueue},
			fetch.Move{Unit: u[1], To: fetch.ToRetry, Score: 1},
			fetch.Move{Unit: u[2], To: fetch.ToBack})
		equal(r.t, name+": units while a is paused", payloads(r.take(f, 5, append(got, u[3])...)), nil)
		r.pause("a", false)
		want := append(append([]string{a[0]}, a[4:]...), a[2])
		got = r.takeAll(f, 7)
		equal(r.t, name+": units after a was unpaused", payloads(got), want)
		r.take(f, 0, got...)
		r.close(f)
		r.must("flush", r.rdb.FlushDB(r.ctx).Err())
	}
}

// pauseTime is how long it may take until a pause is seen: what waits for a push may
// get one that comes before that.
const pauseTime = 2500 * time.Millisecond

// pausedWhileWaiting: a queue that is paused during a Wait gives nothing any more once the
// pause was seen, and loses nothing.
func pausedWhileWaiting(r *rig) {
	f := r.fetcher(fetch.Strict{"a", "b"})
	ended := make(chan error, 1)
	go func() { ended <- f.Wait(r.ctx, 2*time.Second) }()
	select {
	case err := <-ended:
		r.t.Fatalf("wait on empty queues ended at once: %v", err)
	case <-time.After(50 * time.Millisecond): // it must still be waiting
	}
	r.pause("a", true)
	r.must("wait", <-ended)
	for until := time.Now().Add(pauseTime); time.Now().Before(until); {
		equal(r.t, "units", payloads(r.take(f, 1)), nil)
		r.must("wait", f.Wait(r.ctx, 100*time.Millisecond))
	}
	want := r.push("a", 3)
	r.must("wait", f.Wait(r.ctx, 100*time.Millisecond))
	for n := range 4 {
		equal(r.t, "units", payloads(r.take(f, n)), nil)
	}
	equal(r.t, "queue", r.queued("a"), want)
	r.close(f)
	equal(r.t, "queue after close", r.queued("a"), want)
}

// pausedIsNoWork: jobs of paused queues neither end every Wait nor cost a
// command each, and an unpaused queue ends a Wait or is seen by the next look.
func pausedIsNoWork(r *rig) {
	const safety = 5 * time.Second // a daemon looks this often whatever Wait says
	for _, all := range []bool{false, true} {
		f := r.fetcher(fetch.Strict{"a", "b"})
		want := r.push("a", 3)
		r.pause("a", true)
		if all {
			r.push("b", 3)
			r.pause("b", true)
		}
		look := func() { equal(r.t, "units", payloads(r.take(f, 5)), nil) }
		look()
		before, begun := r.net.requests.Load(), time.Now()
		for range 4 { // Waits of a daemon that looks in between
			r.must("wait", f.Wait(r.ctx, 250*time.Millisecond))
			look()
		}
		if took := time.Since(begun); took < 500*time.Millisecond {
			r.t.Errorf("all paused %v: four waits of 250 ms took %v", all, took)
		}
		if n := r.net.requests.Load() - before; n > 150 { // each of several waiters makes, and on a slow machine ends again and again, what it waits by
			r.t.Errorf("all paused %v: four waits and takes made %d requests", all, n)
		}

		ctx, cancel := context.WithTimeout(r.ctx, 30*time.Second)
		var got []fetch.Unit
		unpaused := make(chan time.Time, 1)
		time.AfterFunc(100*time.Millisecond, func() {
			r.pause("a", false)
			unpaused <- time.Now()
		})
		for len(got) == 0 && ctx.Err() == nil {
			if err := f.Wait(ctx, safety); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				r.must("wait", err)
			}
			got = r.take(f, 5)
		}
		cancel()
		equal(r.t, "units after it was unpaused", payloads(got), want)
		// The first look may come 5 s after it and later, the second not before 9.9 s.
		if took := time.Since(<-unpaused); took > 2*safety-soon {
			r.t.Errorf("all paused %v: an unpaused queue was seen after %v", all, took)
		}
		r.take(f, 0, got...)
		r.close(f)
		r.must("flush", r.rdb.FlushDB(r.ctx).Err())
	}
}
