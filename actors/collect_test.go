package actors_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// row is a job of a handler of many.
type row struct {
	N  int    `arg:"0"`
	Do string `arg:"1,optional"`
}

func (row) Class() string { return "Row" }

// calls are the calls of a handler of many.
type calls struct {
	mu    sync.Mutex
	sizes []int
	began []time.Time
}

func (c *calls) add(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes, c.began = append(c.sizes, n), append(c.began, time.Now())
	return len(c.sizes)
}

func (c *calls) all() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sizes)
}

// many is a registry with a handler of many rows. do is called in each call; nil does nothing.
func many(c *calls, of troupe.Collect, do func(ctx context.Context, call int, jobs []*troupe.Job[row]) []error, opts ...troupe.Options) *troupe.Registry {
	var r troupe.Registry
	troupe.HandleMany(&r, func(ctx context.Context, jobs []*troupe.Job[row]) []error {
		n := c.add(len(jobs))
		if do == nil {
			return nil
		}
		return do(ctx, n, jobs)
	}, of, opts...)
	return &r
}

func rows(k *testkit.Kit, n int, do string) (jids []string) {
	for i := range n {
		jids = append(jids, k.Push(row{N: i, Do: do}))
	}
	return jids
}

// A call has Max jobs at most, and begins when the first has waited for Wait, in a capsule with one processor, too.
func TestACallBeginsWithMaxJobsOrAfterWait(t *testing.T) {
	var c calls
	cfg := actors.Config{Registry: many(&c, troupe.Collect{Max: 10, Wait: 3 * time.Second}, nil), Capsules: []actors.Capsule{{Concurrency: 1}}}
	testkit.Virtual(t, cfg, func(t *testing.T, k *testkit.Kit) {
		rows(k, 25, "")
		k.Await("two full calls", func() bool { return len(c.all()) == 2 })
		full := time.Now()
		harness.Equal(t, "jobs that wait are busy", k.Stats().Busy, 0)
		k.Await("the rest", func() bool { return k.Stats().Processed == 25 })
		harness.Equal(t, "calls", fmt.Sprint(c.all()), fmt.Sprint([]int{10, 10, 5}))
		if waited := c.began[2].Sub(full); waited < 2*time.Second || waited > 3*time.Second {
			t.Errorf("the rest has waited for %s, want about 3 s", waited)
		}
		m := k.Metrics().Classes[0]
		harness.Equal(t, "runs", m.Runs["done"], 25)
	}, testkit.Strict())
}

// Each job of a call has an outcome of its own, whatever one job's error may be.
func TestEachJobOfACallHasItsOutcome(t *testing.T) {
	var c calls
	reg := many(&c, troupe.Collect{Max: 7, Wait: time.Hour}, func(_ context.Context, _ int, jobs []*troupe.Job[row]) []error {
		errs := make([]error, len(jobs))
		for i, job := range jobs {
			errs[i] = map[string]error{
				"error": errors.New("no"), "kill": troupe.Kill(nil), "discard": troupe.Discard(nil), "retry": troupe.RetryExactly(time.Hour, nil),
				"park": troupe.Park(time.Hour, nil), "move": troupe.MoveTo("other"),
			}[job.Args.Do]
		}
		return errs
	})
	testkit.Virtual(t, actors.Config{Registry: reg, Capsules: []actors.Capsule{{Concurrency: 3}}}, func(t *testing.T, k *testkit.Kit) {
		for _, do := range []string{"", "error", "kill", "discard", "retry", "park", "move"} {
			k.Push(row{Do: do})
		}
		k.Await("the call", func() bool { return len(c.all()) == 1 && k.Settled() })
		harness.Equal(t, "calls", fmt.Sprint(c.all()), fmt.Sprint([]int{7}))
		for key, want := range map[string]int{"retry": 2, "dead": 1, "schedule": 1, "queue:other": 1, "queue:default": 0} {
			harness.Equal(t, key, size(t, k.Redis, key), want)
		}
		for outcome, want := range map[string]uint64{"done": 1, "error": 4, "parked": 1, "moved": 1} {
			harness.Equal(t, outcome, k.Metrics().Classes[0].Runs[outcome], want)
		}
	})
}

// A slice of another length than the jobs is a failure of all.
func TestOutcomesOfAnotherNumberAreAFailureOfAll(t *testing.T) {
	var c calls
	reg := many(&c, troupe.Collect{Max: 3}, func(context.Context, int, []*troupe.Job[row]) []error { return make([]error, 2) })
	testkit.Virtual(t, actors.Config{Registry: reg}, func(t *testing.T, k *testkit.Kit) {
		rows(k, 3, "")
		k.Await("all are retried", func() bool { return size(t, k.Redis, "retry") == 3 })
		for _, m := range k.Redis.ZRange(t.Context(), "retry", 0, -1).Val() {
			if !strings.Contains(m, "2 outcomes for 3 jobs") {
				t.Errorf("the error is not told: %s", m)
			}
		}
	})
}

// A panic or Goexit of the function, or a panic of its goroutine, fails all jobs and restarts one processor.
func TestAPanicFailsAllJobsOfACallAndRestartsOneProcessor(t *testing.T) {
	for how, do := range map[string]func(ctx context.Context){
		"boom": func(context.Context) { panic("boom") }, "Goexit": func(context.Context) { runtime.Goexit() },
		"in a goroutine": func(ctx context.Context) {
			troupe.Go(ctx, func(context.Context) error { panic("in a goroutine") })
		},
	} {
		t.Run(how, func(t *testing.T) {
			var c calls
			var crashes, failed atomic.Int64
			reg := many(&c, troupe.Collect{Max: 4}, func(ctx context.Context, call int, _ []*troupe.Job[row]) []error {
				if call == 1 {
					do(ctx)
				}
				return nil
			})
			cfg := actors.Config{Registry: reg, Capsules: []actors.Capsule{{Concurrency: 1}}, Subscribers: []func(event.Event){func(e event.Event) {
				switch e := e.(type) {
				case event.ActorCrashed:
					crashes.Add(1)
				case event.JobFailed:
					if e.Crashed {
						failed.Add(1)
					}
				}
			}}}
			testkit.Virtual(t, cfg, func(t *testing.T, k *testkit.Kit) {
				rows(k, 4, "")
				k.Await("all are retried", func() bool { return size(t, k.Redis, "retry") == 4 })
				for _, m := range k.Redis.ZRange(t.Context(), "retry", 0, -1).Val() {
					if !strings.Contains(m, how) {
						t.Errorf("the error is not told: %s", m)
					}
				}
				rows(k, 4, "")
				k.Await("the processor goes on", func() bool { return len(c.all()) == 2 && k.Settled() })
				synctest.Wait()
				harness.Equal(t, "crashes", crashes.Load(), 1)
				harness.Equal(t, "failures", failed.Load(), 4)
				harness.Equal(t, "panics", k.Metrics().Classes[0].Runs["panic"], 4)
			})
		})
	}
}

// Quiet and a stop end the waiting: the call begins at once.
func TestAStopHasTheCallMadeAtOnce(t *testing.T) {
	for how, end := range map[string]func(k *testkit.Kit){"quiet": func(k *testkit.Kit) { k.Quiet() }, "stop": func(k *testkit.Kit) { k.Stop() }} {
		t.Run(how, func(t *testing.T) {
			var c calls
			cfg := actors.Config{Registry: many(&c, troupe.Collect{Max: 100, Wait: time.Hour}, nil), Capsules: []actors.Capsule{{Concurrency: 2}}}
			testkit.Virtual(t, cfg, func(t *testing.T, k *testkit.Kit) {
				rows(k, 30, "")
				time.Sleep(time.Second) // of virtual time
				harness.Equal(t, "calls before", len(c.all()), 0)
				began := time.Now()
				end(k)
				k.Await("done", func() bool { return k.Stats().Processed == 30 && inProgress(t, k.Redis) == 0 })
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %s", took)
				}
				harness.Equal(t, "calls", fmt.Sprint(c.all()), fmt.Sprint([]int{30}))
			}, testkit.Strict())
		})
	}
}

// At the deadline of a stop all jobs of a call go back, and its context ends with the cause.
func TestTheJobsOfACallGoBackAtTheDeadline(t *testing.T) {
	var c calls
	var cause atomic.Value
	reg := many(&c, troupe.Collect{Max: 5}, func(ctx context.Context, _ int, _ []*troupe.Job[row]) []error {
		<-ctx.Done()
		cause.Store(context.Cause(ctx))
		return nil
	})
	testkit.Virtual(t, actors.Config{Registry: reg, Capsules: []actors.Capsule{{Concurrency: 1}}}, func(t *testing.T, k *testkit.Kit) {
		rows(k, 5, "")
		k.Await("the call", func() bool { return len(c.all()) == 1 })
		report := k.Stop()
		harness.Equal(t, "requeued", len(report.Requeued), 5)
		harness.Equal(t, "in the queue", size(t, k.Redis, "queue:default"), 5)
		if !errors.Is(cause.Load().(error), troupe.ErrShutdown) {
			t.Errorf("the cause is %v", cause.Load())
		}
	})
}

// A job that is cancelled while it waits leaves the collection; in a call its own context ends.
func TestOneJobOfACallIsCancelled(t *testing.T) {
	var c calls
	reg := many(&c, troupe.Collect{Max: 3, Wait: time.Minute}, func(ctx context.Context, _ int, jobs []*troupe.Job[row]) []error {
		errs := make([]error, len(jobs))
		time.Sleep(time.Second) // of virtual time
		for i, job := range jobs {
			errs[i] = context.Cause(job.Context())
		}
		if ctx.Err() != nil {
			t.Error("the context of the call has ended")
		}
		return errs
	})
	testkit.Virtual(t, actors.Config{Registry: reg, Capsules: []actors.Capsule{{Concurrency: 1}}}, func(t *testing.T, k *testkit.Kit) {
		jids := rows(k, 2, "")
		time.Sleep(time.Second) // of virtual time
		harness.Equal(t, "found", k.Cancel(jids[0]), true)
		k.Await("it is retried", func() bool { return size(t, k.Redis, "retry") == 1 })
		jids = append(jids, rows(k, 2, "")...)
		k.Await("the call", func() bool { return len(c.all()) == 1 })
		harness.Equal(t, "found", k.Cancel(jids[3]), true)
		k.Await("both are retried, the others done", func() bool { return size(t, k.Redis, "retry") == 2 && k.Stats().Processed == 4 })
		harness.Equal(t, "calls", fmt.Sprint(c.all()), fmt.Sprint([]int{3}))
	})
}

// The Timeout of the class ends the context of the call, and a call that goes on is given up as a run is: its processor works on.
func TestACallThatDoesNotEndIsGivenUp(t *testing.T) {
	var c calls
	release := make(chan struct{})
	reg := many(&c, troupe.Collect{Max: 3, Wait: time.Second}, func(ctx context.Context, call int, _ []*troupe.Job[row]) []error {
		if call == 1 {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), troupe.ErrJobTimeout) {
				t.Errorf("the cause is %v", context.Cause(ctx))
			}
			<-release
		}
		return nil
	}, troupe.Timeout(5*time.Second))
	testkit.Virtual(t, actors.Config{Registry: reg, Capsules: []actors.Capsule{{Concurrency: 1, MaxUnresponsive: 1}}}, func(t *testing.T, k *testkit.Kit) {
		release = make(chan struct{})
		rows(k, 3, "")
		k.Await("all are given up", func() bool { return size(t, k.Redis, "retry") == 3 })
		rows(k, 3, "")
		k.Await("another call", func() bool { return len(c.all()) == 2 })
		close(release)
		k.Await("the end", k.Settled)
		harness.Equal(t, "retries", size(t, k.Redis, "retry"), 3)
		harness.Equal(t, "late", k.Metrics().Classes[0].Runs["late"], 3)
	})
}

// Middleware and Within are per job; the time of a call is counted once.
func TestMiddlewareContextAndTimeOfACall(t *testing.T) {
	var c calls
	var around, inside atomic.Int64
	type key struct{}
	mw := func(next troupe.Handler) troupe.Handler {
		return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
			around.Add(1)
			return next.Perform(context.WithValue(ctx, key{}, p.JID()), p)
		})
	}
	reg := many(&c, troupe.Collect{Max: 10}, func(ctx context.Context, _ int, jobs []*troupe.Job[row]) []error {
		time.Sleep(5 * time.Second) // of virtual time
		errs := make([]error, len(jobs))
		for i, job := range jobs {
			if job.Context().Value(key{}) == job.JID {
				inside.Add(1)
			}
			_, err := client.Within(job.Context()).PushClass(ctx, "Child", nil, client.Queue("low"))
			if job.Args.N == 0 {
				errs[i] = errors.Join(err, errors.New("no"))
			}
		}
		if _, err := client.FromContext(ctx).PushClass(ctx, "Child", nil, client.Queue("direct")); err != nil {
			t.Error(err)
		}
		return errs
	}, troupe.Options{Middleware: []troupe.Middleware{mw}})
	testkit.Virtual(t, actors.Config{Registry: reg, Capsules: []actors.Capsule{{Concurrency: 2}}}, func(t *testing.T, k *testkit.Kit) {
		rows(k, 10, "")
		k.Await("done", func() bool { return k.Stats().Processed == 10 && k.Settled() })
		harness.Equal(t, "around", around.Load(), 10)
		harness.Equal(t, "contexts", inside.Load(), 10)
		harness.Equal(t, "children of the nine that are done", size(t, k.Redis, "queue:low"), 9)
		harness.Equal(t, "pushed at once", size(t, k.Redis, "queue:direct"), 1)
		if sum := k.Metrics().Classes[0].Times.Sum; sum != 4500*time.Millisecond { // without the one that has failed
			t.Errorf("the time of the nine is %s, want their share of 5 s", sum)
		}
	})
}

// However many jobs come, calls are no more than processors, and the jobs in hand are bounded.
func TestCallsAreAsManyAsProcessors(t *testing.T) {
	var c calls
	var now, most atomic.Int64
	reg := many(&c, troupe.Collect{Max: 5, Wait: 10 * time.Millisecond}, func(context.Context, int, []*troupe.Job[row]) []error {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(time.Second) // of virtual time
		now.Add(-1)
		return nil
	})
	testkit.Virtual(t, actors.Config{Registry: reg, Capsules: []actors.Capsule{{Concurrency: 3}}}, func(t *testing.T, k *testkit.Kit) {
		rows(k, 200, "")
		for k.Stats().Processed < 200 {
			if n := inProgress(t, k.Redis); n > 60 {
				t.Fatalf("%d jobs in progress", n)
			}
			time.Sleep(100 * time.Millisecond) // of virtual time
		}
		harness.Equal(t, "calls at once", most.Load(), 3)
		sum := 0
		for _, n := range c.all() {
			sum += n
		}
		harness.Equal(t, "jobs", sum, 200)
	}, testkit.Strict())
}

// Suspects run alone: a call has one of them, and nothing else.
func TestASuspectHasACallOfItsOwn(t *testing.T) {
	var c calls
	cfg := actors.Config{Registry: many(&c, troupe.Collect{Max: 10, Wait: time.Minute}, nil), Capsules: []actors.Capsule{{Concurrency: 2}}}
	testkit.Virtual(t, cfg, func(t *testing.T, k *testkit.Kit) {
		began := time.Now()
		rows(k, 2, "")          // they wait when the suspects come
		time.Sleep(time.Second) // of virtual time
		for i := range 3 {
			k.Redis.LPush(t.Context(), "queue:default.suspects", fmt.Sprintf(`{"class":"Row","args":[%d],"jid":"s%d","queue":"default","retry":true}`, i, i))
		}
		k.Await("all are done", func() bool { return k.Stats().Processed == 5 })
		harness.Equal(t, "calls", fmt.Sprint(c.all()), fmt.Sprint([]int{2, 1, 1, 1}))
		if waited := c.began[0].Sub(began); waited > 30*time.Second {
			t.Errorf("those that were collected have waited for %s beside the suspects", waited)
		}
	})
}

// A limit lets some jobs in; those are collected.
func TestACallHasTheJobsThatALimitLetsIn(t *testing.T) {
	var c calls
	reg := many(&c, troupe.Collect{Max: 10, Wait: time.Second}, nil, troupe.Options{Limits: []troupe.Limit{{Name: "rows", AtOnce: 4}}})
	testkit.Virtual(t, actors.Config{Registry: reg, Capsules: []actors.Capsule{{Concurrency: 2}}}, func(t *testing.T, k *testkit.Kit) {
		rows(k, 12, "")
		k.Await("all are done", func() bool { return k.Stats().Processed == 12 })
		if most := slices.Max(c.all()); most != 4 {
			t.Errorf("calls of %v jobs, want 4 at most", c.all())
		}
	})
}

// A call that is due in a quiet capsule is made, though its processors crash.
func TestACallIsMadeAfterACrashInAQuietCapsule(t *testing.T) {
	var c calls
	reg := many(&c, troupe.Collect{Max: 100, Wait: time.Hour}, nil)
	testkit.Virtual(t, actors.Config{Registry: reg, Capsules: []actors.Capsule{{Concurrency: 1}}}, func(t *testing.T, k *testkit.Kit) {
		rows(k, 5, "")
		time.Sleep(time.Second) // of virtual time
		k.Crash("launcher/default/processor-0", errors.New("boom"))
		k.Quiet()
		k.Await("all are done", func() bool { return k.Stats().Processed == 5 })
		harness.Equal(t, "calls", fmt.Sprint(c.all()), fmt.Sprint([]int{5}))
	})
}
