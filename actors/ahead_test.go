package actors_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

func TestNothingIsFetchedAheadOfSlowJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		mem := testkit.NewMemory(t)
		k := testkit.Start(t, actors.Config{
			Redis: mem.Client, Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 4}},
		})
		push(k, 40, script.Slow(time.Second))
		for range 8 {
			time.Sleep(500 * time.Millisecond)
			if n := inProgress(t, k.Redis); n > 4 {
				t.Fatalf("%d jobs in progress with 4 processors", n)
			}
		}
		k.Await("all done", func() bool { return k.Stats().Processed == 40 })
		k.Stop()
	})
}

func TestWhatWasFetchedAheadGoesBackWhenLongJobsTakeTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		mem := testkit.NewMemory(t)
		k := testkit.Start(t, actors.Config{
			Redis: mem.Client, Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 4}},
		})
		// At 4,000 jobs a second 4 may wait: the long ones come while they do.
		push(k, 400, script.Slow(time.Millisecond))
		push(k, 4, script.Slow(time.Minute))
		short := push(k, 50, script.Slow(time.Millisecond))
		k.Await("the long ones run", func() bool {
			return k.Stats().Processed >= 400 && k.Stats().Busy == 4 && k.Redis.LLen(ctx, "queue:default").Val() > 0
		})
		k.Await("and hold nothing back", func() bool { return inProgress(t, k.Redis) == 4 })
		if most := s.Most(); most > 4 {
			t.Errorf("%d jobs at once on 4 processors", most)
		}
		// In their order: the next one is at the right end.
		jobs := k.Redis.LRange(ctx, "queue:default", 0, -1).Val()
		for i, job := range jobs {
			if want := short[len(short)-1-i]; !strings.Contains(job, want) {
				t.Fatalf("job %d from the left is %s, want %s", i, job, want)
			}
		}
		time.Sleep(time.Minute)
		k.Await("all done", func() bool { return k.Stats().Processed == 454 })
		k.Stop()
	})
}

func TestASlotWhoseActorTakesNoMessagesDoesNotGoOnByItself(t *testing.T) {
	const processor = "launcher/default/processor-0"
	for name, way := range map[string]struct{ on, off func(*testkit.Kit) }{
		"held":      {func(k *testkit.Kit) { k.Hold(processor) }, func(k *testkit.Kit) { k.Release(processor) }},
		"suspended": {func(k *testkit.Kit) { k.Suspend(processor) }, func(k *testkit.Kit) { k.Resume(processor) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := script.New(t)
				var runs atomic.Int64 // of this processor
				k := testkit.Start(t, actors.Config{
					Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 4}},
					Subscribers: []func(event.Event){func(e event.Event) {
						if e, ok := e.(event.JobStarted); ok && e.Actor == processor {
							runs.Add(1)
						}
					}},
				})
				push(k, 400, script.Slow(time.Millisecond)) // enough for a look-ahead
				time.Sleep(50 * time.Millisecond)
				way.on(k)
				synctest.Wait()
				before := runs.Load()
				if before < 10 || before > 60 {
					t.Fatalf("%d jobs started before", before)
				}
				k.Await("the others to be done", func() bool { return k.Stats().Processed >= 398 })
				time.Sleep(time.Minute)
				harness.Equal(t, "it started jobs meanwhile", runs.Load()-before, 0)
				way.off(k)
				k.Await("all done", func() bool { return k.Stats().Processed == 400 })
				k.Stop()
			})
		})
	}
}

func TestOneProcessorRunsJobsInOrderThoughSomeGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var ran []string
		var r troupe.Registry
		troupe.HandleClass(&r, "Scripted", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
			mu.Lock()
			ran = append(ran, p.JID())
			n := len(ran)
			mu.Unlock()
			time.Sleep(100 * time.Microsecond)
			if n%60 == 0 {
				time.Sleep(20 * time.Millisecond) // whatever was fetched ahead goes back
			}
			return nil
		}))
		mem := testkit.NewMemory(t)
		k := testkit.Start(t, actors.Config{
			Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 1}},
		})
		want := push(k, 600, script.OK())
		k.Await("all done", func() bool { return k.Stats().Processed == 600 })
		k.Stop()
		if !slices.Equal(ran, want) {
			t.Errorf("the jobs did not run in the order of their queue")
		}
	})
}

// narrow is a way on which a reply with more than so many units does not come.
type narrow struct {
	fetch.Fetcher
	most int
}

func (f *narrow) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if n > f.most {
		return nil, context.DeadlineExceeded
	}
	return f.Fetcher.Take(ctx, n, acks)
}

func TestAFetchThatFailedIsTriedWithLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		mem := testkit.NewMemory(t)
		k := testkit.Start(t, actors.Config{
			Redis: mem.Client, Registry: s.Registry(), Capsules: []actors.Capsule{{
				Concurrency: 40, Fetch: func(env fetch.Env) (fetch.Fetcher, error) {
					f, err := fetch.NewReliable(env)
					return &narrow{f, 10}, err
				},
			}},
		})
		push(k, 200, script.Slow(time.Millisecond))
		k.Await("all done", func() bool { return k.Stats().Processed == 200 })
		k.Stop()
	})
}

// stuck is a fetcher whose Take, once armed, does not return for a while.
type stuck struct {
	fetch.Fetcher
	takes atomic.Int64 // those that hang
	armed atomic.Bool
}

func (f *stuck) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if f.armed.Swap(false) {
		f.takes.Add(1)
		time.Sleep(20 * time.Second) // in virtual time
	}
	return f.Fetcher.Take(ctx, n, acks)
}

// A process that was paused has jobs in its inbox that another process may have rescued.
// The pause of the fetch goroutine stands for one of the whole process.
func TestAJobThatHasWaitedForHalfALeaseIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r troupe.Registry
		var ran []string
		var long time.Time // when the long job ended
		var early int
		fetcher := &stuck{}
		n := 0
		troupe.HandleClass(&r, "Scripted", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
			ran = append(ran, p.JID())
			time.Sleep(50 * time.Microsecond)
			if n++; n == 300 { // the look-ahead is up
				fetcher.armed.Store(true)
				for fetcher.takes.Load() == 0 && n == 300 {
					time.Sleep(50 * time.Microsecond)
				}
				time.Sleep(16 * time.Second)
				long = time.Now()
			}
			if !long.IsZero() && n > 300 && time.Since(long) < 3*time.Second {
				early++
			}
			return nil
		}))
		mem := testkit.NewMemory(t)
		k := testkit.Start(t, actors.Config{
			Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{
				Concurrency: 1, Fetch: func(env fetch.Env) (_ fetch.Fetcher, err error) {
					fetcher.Fetcher, err = fetch.NewReliable(env)
					return fetcher, err
				},
			}},
		})
		want := push(k, 600, script.OK())
		k.Await("all done", func() bool { return k.Stats().Processed == 600 })
		k.Stop()
		if early > 0 {
			t.Errorf("%d jobs started that had been fetched 16 s before", early)
		}
		slices.Sort(ran)
		slices.Sort(want)
		if !slices.Equal(ran, want) {
			t.Errorf("%d runs of %d jobs", len(ran), len(want))
		}
	})
}
