package run

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/fetch"
)

// Whoever asks first, and whenever the job ends: Err and Done agree, and the cause
// is that of the first end.
func TestAJobsContextEndsOnceForAll(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for range 2000 {
		var c jobContext
		var wg sync.WaitGroup
		wins := make(chan error, 2)
		for _, cause := range []error{first, second} {
			wg.Go(func() {
				if c.Cancel(cause) {
					wins <- cause
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				child, cancel := context.WithCancel(&c)
				defer cancel()
				<-child.Done()
				if c.Err() == nil {
					t.Error("a context whose child has ended has no error")
				}
			})
			wg.Go(func() {
				for c.Err() == nil {
					select {
					case <-c.Done():
					default:
					}
				}
				select {
				case <-c.Done():
				default:
					t.Error("a context that has an error is not done")
				}
			})
		}
		wg.Wait()
		if len(wins) != 1 {
			t.Fatalf("%d were the first to end it", len(wins))
		}
		if cause := <-wins; !errors.Is(context.Cause(&c), cause) {
			t.Fatalf("the cause is %v, want %v", context.Cause(&c), cause)
		}
	}
}

// A context that is kept after its job goes on telling of that job, and so does
// the info.
func TestAContextKeptAfterItsJobStillTellsOfIt(t *testing.T) {
	all := make([]Run, 3)
	for i, jid := range []string{"a", "b", "c"} {
		r := &all[i]
		r.item.Unit = fetch.Unit{Queue: "q"}
		r.env, r.w, r.jid, r.name, r.attempt, r.job.r = &Env{Capsule: "default"}, &r.item, jid, "Mail", i+1, r
	}
	infos := make([]troupe.JobInfo, len(all))
	for i := range all {
		infos[i], _ = troupe.JobInfoFrom(&all[i].job)
		all[i].job.Cancel(nil)
	}
	for i, jid := range []string{"a", "b", "c"} {
		again, ok := troupe.JobInfoFrom(&all[i].job)
		want := troupe.JobInfo{JID: jid, Class: "Mail", Queue: "q", Capsule: "default", Attempt: i + 1}
		if !ok || again != want || infos[i] != want {
			t.Errorf("the info is %+v, then %+v, want %+v", infos[i], again, want)
		}
	}
}

// BenchmarkContext is what most handlers do with their context: they make one from it. The logger is
// made for those that ask for it.
func BenchmarkContext(b *testing.B) {
	for _, bench := range []struct {
		name string
		use  func(context.Context)
	}{
		{"derived", func(ctx context.Context) { _, cancel := context.WithCancel(ctx); cancel() }},
		{"logger", func(ctx context.Context) { zerolog.Ctx(ctx) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			log := zerolog.New(io.Discard)
			b.ReportAllocs()
			for b.Loop() {
				r := &Run{}
				r.item.Unit = fetch.Unit{Queue: "q"}
				r.env, r.w, r.jid, r.class, r.log, r.job.r = &Env{Capsule: "default"}, &r.item, "jid", "Mail", &log, r
				bench.use(&r.job)
				r.job.Cancel(nil)
			}
		})
	}
}
