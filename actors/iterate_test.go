package actors_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// At quiet the item at hand ends, the cursor is saved, and the job goes behind
// what waits: uncounted as a retry, counted as Sidekiq counts, no handler told.
func TestQuietInterruptsAnIterableJob(t *testing.T) {
	for name, factory := range fetchers {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Redis(t)
			log := new(harness.Buffer)
			step := make(chan struct{})
			w := &walker{each: func(context.Context, string, int) error { <-step; return nil }}
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: w.registry(), Logger: zerolog.New(log), Capsules: one(factory),
				ErrorHandlers: []actors.ErrorHandler{func(_ context.Context, err error, _ actors.ErrorContext) {
					t.Errorf("an error handler was told of %v", err)
				}},
				DeathHandlers: []actors.DeathHandler{func(_ context.Context, _ *troupe.Payload, err error) {
					t.Errorf("a death handler was told of %v", err)
				}},
			}, testkit.Strict())
			const raw = `{"class":"Walk","args":[9 ],"jid":"w1","queue":"default","retry":false,"retry_count":3,"x":1.50,"enqueued_at":1795224881153}`
			harness.OK(t, rdb.LPush(ctx, "queue:default", raw).Err())
			for range 2 {
				step <- struct{}{}
			}
			k.Await("the third item", w.reached("w1", 2))
			rdb.Del(ctx, "queues")
			waiting := k.PushClass("Walk", []any{0}, client.Queue("default"))
			rdb.Del(ctx, "queues")
			k.Quiet()
			began := time.Now()
			k.Expect(testkit.Events[event.JobInterrupted]().Of("Walk").Times(1), func() { step <- struct{}{} })
			k.Await("all settled", k.Settled)
			if got := w.itemsOf("w1"); !slices.Equal(got, upTo(3)) {
				t.Errorf("ran %v", got)
			}
			wantState(t, rdb, "w1", 1, 3)
			if rt, err := rdb.HGet(ctx, "it-w1", "rt").Float64(); err != nil || rt <= 0 {
				t.Errorf("rt is %v, %v", rt, err)
			}
			queue := rdb.LRange(ctx, "queue:default", 0, -1).Val()
			if len(queue) != 2 {
				t.Fatalf("the queue is %q", queue)
			}
			p, err := troupe.ParsePayload([]byte(queue[0])) // the end that is popped last
			harness.OK(t, err)
			at, _ := p.Time("enqueued_at")
			if d := at.Sub(began); d < -time.Second || d > time.Minute {
				t.Errorf("enqueued_at is %s, want now", at)
			}
			p.Set("enqueued_at", []byte("1795224881153"))
			if want, _ := troupe.ParsePayload([]byte(raw)); string(p.Bytes()) != compact(t, want) {
				t.Errorf("the job is\n%s\nwant\n%s", p.Bytes(), compact(t, want))
			}
			if last, _ := troupe.ParsePayload([]byte(queue[1])); last.JID() != waiting {
				t.Errorf("popped next is %q, want the job that waited", queue[1])
			}
			if !rdb.SIsMember(ctx, "queues", "default").Val() {
				t.Error("the queue is not known, as after a push")
			}
			if s := k.Stats(); s.Processed != 1 || s.Failed != 1 {
				t.Errorf("counts %+v, want 1 and 1 as in Sidekiq", s)
			}
			k.Stop()
			for _, key := range []string{"retry", "dead", "schedule"} {
				if n := size(t, rdb, key); n != 0 {
					t.Errorf("%s has %d members", key, n)
				}
			}
			harness.Equal(t, "jobs are still in progress", inProgress(t, rdb), 0)
			if log.Count(`"outcome":"interrupted"`) != 1 || log.Count(`"level":"error"`) != 0 || log.Count("job failed") != 0 {
				t.Errorf("the log:\n%s", log)
			}
		})
	}
}

// A stop takes as long as the item at hand, and each item runs once.
func TestAnIterableJobGoesOnAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		w := &walker{each: sleeping(time.Second)}
		r := w.registry()
		var k *testkit.Kit
		start := func() { k = testkit.Start(t, actors.Config{Redis: m.Client, Registry: r}, testkit.Strict()) }
		start()
		jid := k.Push(walk{20})
		for _, at := range []int{2, 9} {
			k.Await("progress", w.reached(jid, at))
			began := time.Now()
			report := k.Stop()
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the stop took %s", took)
			}
			if len(report.Interrupted) != 1 || report.Interrupted[0].JID != jid || len(report.Finished)+len(report.Requeued) != 0 {
				t.Errorf("drain report: %s", report)
			}
			start()
		}
		k.Await("it is done", func() bool { return len(w.itemsOf(jid)) == 20 && inProgress(t, m.Client) == 0 })
		k.Await("its state is deleted", func() bool { return len(state(t, m.Client, jid)) == 0 })
		if got := w.itemsOf(jid); !slices.Equal(got, upTo(20)) || w.runs[jid] != 3 {
			t.Errorf("ran %v in %d runs", got, w.runs[jid])
		}
		harness.Equal(t, "jobs are left", size(t, m.Client, "queue:default")+size(t, m.Client, "retry"), 0)
	})
}

func TestMaxIterationRuntimeLetsOthersGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		var mu sync.Mutex
		var order []string
		w := &walker{each: func(_ context.Context, jid string, _ int) error {
			mu.Lock()
			if len(order) == 0 || order[len(order)-1] != jid {
				order = append(order, jid)
			}
			mu.Unlock()
			time.Sleep(400 * time.Millisecond)
			return nil
		}}
		k := testkit.Start(t, actors.Config{
			Redis: m.Client, Registry: w.registry(), Capsules: one(nil), MaxIterationRuntime: time.Second,
		}, testkit.Strict())
		a, b := k.Push(walk{7}), k.Push(walk{7})
		k.Await("both are done", func() bool {
			return len(w.itemsOf(a)) == 7 && len(w.itemsOf(b)) == 7 && inProgress(t, m.Client) == 0
		})
		if want := []string{a, b, a, b, a, b}; !slices.Equal(order, want) { // three items each time
			t.Errorf("the order was %q, want %q", order, want)
		}
		if !slices.Equal(w.itemsOf(a), upTo(7)) || !slices.Equal(w.itemsOf(b), upTo(7)) {
			t.Errorf("ran %v and %v", w.itemsOf(a), w.itemsOf(b))
		}
	})
}

// However long the first item takes to find, each run gets one done.
func TestMaxIterationRuntimeNeverStopsAllProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		w := &walker{each: sleeping(100 * time.Millisecond)}
		w.opts.OnStart = func(context.Context, *troupe.Job[walk], troupe.Iteration) error { time.Sleep(time.Second); return nil }
		w.opts.OnResume = w.opts.OnStart
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: w.registry(), MaxIterationRuntime: time.Millisecond}, testkit.Strict())
		jid := k.Push(walk{3})
		k.Await("it is done", func() bool { return len(w.itemsOf(jid)) == 3 && inProgress(t, m.Client) == 0 })
		harness.Equal(t, "runs for 3 items", w.runs[jid], 3)
	})
}

// Errors, panics and Goexit are stored as retries, which begin with the item.
func TestAFailedIterationIsRetriedFromItsCursor(t *testing.T) {
	for _, step := range []string{"error", "panic", "park", "middleware"} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := testkit.NewMemory(t)
				w := &walker{}
				failed := false
				w.each = func(_ context.Context, _ string, i int) error {
					if i != 4 || failed || step == "middleware" {
						return nil
					}
					failed = true
					switch step {
					case "panic":
						panic("scripted panic")
					case "park":
						return troupe.Park(time.Minute, script.Err)
					}
					return script.Err
				}
				// outside of the handler: it has run all items
				late := func(next troupe.Handler) troupe.Handler {
					return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
						err := next.Perform(ctx, p)
						if err == nil && step == "middleware" && !failed {
							failed = true
							return script.Err
						}
						return err
					})
				}
				k := testkit.Start(t, actors.Config{
					Redis: m.Client, Registry: w.registry(), Middleware: []troupe.Middleware{late}, Capsules: one(nil),
				}, testkit.Strict())
				k.Allow(testkit.Crashes("launcher/default/processor-0"))
				jid := k.Push(walk{6})
				set, at, again := "retry", 4, []int{0, 1, 2, 3, 4, 4, 5}
				switch step {
				case "park":
					set = "schedule"
				case "middleware":
					at, again = 5, []int{0, 1, 2, 3, 4, 5, 5}
				}
				k.Await("it waits", func() bool { return size(t, m.Client, set) == 1 })
				wantState(t, m.Client, jid, 1, at)
				k.Expect(testkit.Events[event.JobDone]().Times(1).Within(5*time.Minute), nil)
				if got := w.itemsOf(jid); !slices.Equal(got, again) {
					t.Errorf("ran %v, want %v", got, again)
				}
				k.Await("its state is deleted", func() bool { return len(state(t, m.Client, jid)) == 0 })
			})
		})
	}
}

func TestACancelledIterableJobEndsWithinFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		w := &walker{each: sleeping(100 * time.Millisecond)}
		var hooks []string
		note := func(name string) func(context.Context, *troupe.Job[walk], troupe.Iteration) error {
			return func(_ context.Context, _ *troupe.Job[walk], it troupe.Iteration) error {
				hooks = append(hooks, fmt.Sprint(name, " ", !it.Cancelled.IsZero()))
				return nil
			}
		}
		w.opts.OnCancel, w.opts.OnComplete = note("cancel"), note("complete")
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: w.registry()}, testkit.Strict())
		jid := k.Push(walk{1_000_000})
		k.Await("it runs", w.reached(jid, 60))
		harness.Must(k.Client.CancelIterable(ctx, jid))(t)
		k.Expect(testkit.Events[event.JobDone]().Times(1).Within(5*time.Second), nil)
		k.Await("all settled", k.Settled)
		harness.EqualList(t, "hooks", hooks, []string{"cancel true", "complete true"})
		if s := k.Stats(); s.Processed != 1 || s.Failed != 0 {
			t.Errorf("counts %+v", s)
		}
		k.Await("its state is deleted", func() bool { return len(state(t, m.Client, jid)) == 0 })

		// one that has not begun runs no item
		jid = "c2"
		harness.Must(k.Client.CancelIterable(ctx, jid))(t)
		k.Expect(testkit.Events[event.JobDone]().Times(1), func() { k.PushClass("Walk", []any{9}, client.JID(jid)) })
		if got := w.itemsOf(jid); len(got) != 0 {
			t.Errorf("ran %v", got)
		}
		k.Await("its state is deleted", func() bool { return len(state(t, m.Client, jid)) == 0 })
	})
}

// A daemon's own kind of handler may ask for the same.
func TestAnyHandlerMayBeInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		var r troupe.Registry
		troupe.HandleClass(&r, "Again", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
			if runs++; runs < 3 {
				return fmt.Errorf("not yet: %w", troupe.ErrInterrupted)
			}
			return nil
		}))
		k := testkit.Start(t, actors.Config{Registry: &r, Capsules: one(nil)}, testkit.Strict())
		k.Expect(testkit.Events[event.JobInterrupted]().Times(2), func() { k.PushClass("Again", nil) })
		k.Await("it is done", func() bool { return k.Stats().Processed == 3 })
		k.Await("all settled", k.Settled)
		if s := k.Stats(); s.Processed != 3 || s.Failed != 2 {
			t.Errorf("counts %+v", s)
		}
	})
}

// Without a jid there is no key for a state: it runs as any other job.
func TestAnIterableJobWithoutAJIDIsNotInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		w := &walker{each: sleeping(time.Second)}
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: w.registry(), MaxIterationRuntime: time.Second}, testkit.Strict())
		k.Expect(testkit.Events[event.JobDone]().Times(1).Within(time.Minute), func() {
			m.Client.LPush(ctx, "queue:default", `{"class":"Walk","args":[8],"queue":"default"}`)
		})
		if got := w.itemsOf(""); !slices.Equal(got, upTo(8)) {
			t.Errorf("ran %v", got)
		}
		if m.Client.Exists(ctx, "it-").Val() != 0 {
			t.Error("a state without a name was written")
		}
	})
}

// A state that cannot be read fails the job and is left alone.
func TestAnUnreadableStateFailsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		w := &walker{}
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: w.registry()}, testkit.Strict())
		m.Client.Set(ctx, "it-w1", "text", 0)
		m.Client.HSet(ctx, "it-w2", "ex", 1, "c", `"text"`)
		for _, jid := range []string{"w1", "w2"} {
			k.Expect(testkit.Events[event.JobDied]().Times(1), func() {
				k.PushClass("Walk", []any{3}, client.JID(jid), client.Retry(0))
			})
			if got := w.itemsOf(jid); len(got) != 0 {
				t.Errorf("%s ran %v", jid, got)
			}
		}
		if m.Client.Get(ctx, "it-w1").Val() != "text" || m.Client.HGet(ctx, "it-w2", "c").Val() != `"text"` {
			t.Error("the states have changed")
		}
	})
}
