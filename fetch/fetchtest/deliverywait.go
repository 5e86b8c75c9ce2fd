package fetchtest

import (
	"bytes"
	"context"
	"errors"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/fetch"
)

// soon is ten times what is promised, for a loaded machine.
const soon = time.Second

// waitWakes: a push to any of the queues ends a Wait long before its time, and
// again after the job was taken.
func waitWakes(r *rig) {
	f := r.fetcher(fetch.Strict{"a", "b", "c"})
	for i, queue := range []string{"c", "a", "b", "a", "c"} {
		ended := make(chan error, 1)
		begun := time.Now()
		go func() { ended <- f.Wait(r.ctx, 30*time.Second) }()
		if i == 0 {
			select {
			case err := <-ended:
				r.t.Fatalf("wait on empty queues ended at once: %v", err)
			case <-time.After(50 * time.Millisecond): // it must still be waiting
			}
		}
		want := r.push(queue, 1)
		select {
		case err := <-ended:
			r.must("wait", err)
		case <-r.ctx.Done():
			r.t.Fatalf("wait did not end after a push to %s", queue)
		}
		if took := time.Since(begun); took > 10*soon {
			r.t.Errorf("wait took %v after a push", took)
		}
		// A wake-up from before may come once for nothing.
		var got []fetch.Unit
		r.until("the job is taken", func() bool {
			got = append(got, r.take(f, 5)...)
			return len(got) > 0
		})
		equal(r.t, "unit", payloads(got), want)
		r.take(f, 0, got...)
	}
	r.close(f)
}

// waitCancelled: a Wait ends with its context, and takes nothing out of Redis
// for good.
func waitCancelled(r *rig) {
	f := r.fetcher(fetch.Strict{"a", "b"})
	var took []time.Duration
	for range 3 {
		ctx, cancel := context.WithCancel(r.ctx)
		ended := make(chan error, 1)
		go func() { ended <- f.Wait(ctx, 30*time.Second) }()
		time.Sleep(20 * time.Millisecond) // let it block; either way it must end
		begun := time.Now()
		cancel()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, context.Canceled) {
				r.t.Errorf("wait: %v, expected the context's error or none", err)
			}
		case <-r.ctx.Done():
			r.t.Fatal("wait did not end with its context")
		}
		took = append(took, time.Since(begun))
	}
	if slices.Sort(took); took[1] > soon { // a loaded machine may hold up one
		r.t.Errorf("waits ended %v after their contexts", took)
	}
	want := r.push("a", 1)
	r.close(f)
	r.until("the job is in its queue", func() bool { return len(r.queued("a")) == 1 })
	equal(r.t, "queue", r.queued("a"), want)
}

// waitTimesOut: a Wait on empty queues ends after its time, without an error.
func waitTimesOut(r *rig) {
	f := r.fetcher(fetch.Strict{"a"})
	for try := 1; ; try++ { // a loaded machine holds up some, not all
		begun := time.Now()
		r.must("wait", f.Wait(r.ctx, 100*time.Millisecond))
		took := time.Since(begun)
		if late := took > 100*time.Millisecond+soon; took < 90*time.Millisecond || late && try == 3 {
			r.t.Errorf("wait of 100 ms took %v", took)
		} else if late {
			continue
		}
		break
	}
	r.must("wait for no time", f.Wait(r.ctx, 0))
	r.close(f)
}

// waitWrongType: a queue key of the wrong type neither ends every Wait at once
// nor hides a push to another queue.
func waitWrongType(r *rig) {
	r.spoil("a")
	f := r.fetcher(fetch.Strict{"a", "b"})
	waits := 0
	for begun := time.Now(); time.Since(begun) < 300*time.Millisecond; waits++ {
		r.must("wait", f.Wait(r.ctx, 300*time.Millisecond))
		if waits > 10 {
			r.t.Fatal("waits spin")
		}
	}
	want := r.push("b", 1)
	var got []fetch.Unit
	r.until("the job is taken", func() bool {
		r.must("wait", f.Wait(r.ctx, 30*time.Second))
		got = r.take(f, 5)
		return len(got) > 0
	})
	equal(r.t, "unit", payloads(got), want)
	r.take(f, 0, got...)
	r.close(f)
}

// closeGivesBack: what a Wait took ahead is back in its queue after Close, and
// a second Close does nothing.
func closeGivesBack(r *rig) {
	f := r.fetcher(fetch.Strict{"a"})
	want := r.push("a", 3)
	r.must("wait", f.Wait(r.ctx, 30*time.Second))
	r.close(f)
	queued := func() []string {
		jobs := r.queued("a")
		if r.ManyWaits {
			slices.Sort(jobs)
		}
		return jobs
	}
	if r.ManyWaits {
		slices.Sort(want)
	}
	equal(r.t, "queue", queued(), want)
	r.close(f)
	if _, err := f.Take(r.ctx, 1, nil); err == nil {
		r.t.Error("take after close: no error")
	}
	if err := f.Wait(r.ctx, time.Second); err == nil {
		r.t.Error("wait after close: no error")
	}
	equal(r.t, "queue", queued(), want)
}

// noGoroutines: Close leaves no goroutine behind, even when a Wait was left.
func noGoroutines(r *rig) {
	env := r.env("default", fetch.Strict{"a", "b", "c"})
	label := r.t.Name()
	// Goroutines inherit the label of the one that starts them.
	pprof.Do(r.ctx, pprof.Labels("fetchtest", label), func(context.Context) {
		for try := 1; ; try++ { // a loaded machine holds up some, not all
			f := r.start(env)
			ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
			defer cancel()
			_ = f.Wait(ctx, 30*time.Second)
			begun := time.Now()
			r.close(f)
			took := time.Since(begun)
			if took <= 5*time.Second {
				break
			}
			if try == 3 {
				r.t.Errorf("close took %v", took)
				break
			}
		}
	})
	r.until("no goroutine of the fetcher is left", func() bool {
		var all bytes.Buffer
		r.must("goroutine profile", pprof.Lookup("goroutine").WriteTo(&all, 1))
		return !strings.Contains(all.String(), label)
	})
}
