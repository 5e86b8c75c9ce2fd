package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

func handlers(byClass map[string]func(context.Context) error, opts ...troupe.Options) *troupe.Registry {
	var r troupe.Registry
	for class, f := range byClass {
		troupe.HandleClass(&r, class, troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error { return f(ctx) }), opts...)
	}
	return &r
}

// A panic in a goroutine is the job's own: it is retried, its processor crashes
// with it, and nothing else hears of it.
func TestPanicInAGoroutineFailsItsJobOnly(t *testing.T) {
	rdb := testkit.Redis(t)
	var cause atomic.Value
	release := make(chan struct{})
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Capsules: []actors.Capsule{{Concurrency: 2}},
		Registry: handlers(map[string]func(context.Context) error{
			"Broken": func(ctx context.Context) error {
				troupe.Go(ctx, func(context.Context) error { panic("stray") })
				<-ctx.Done() // a handler that waits for what will never come
				cause.Store(context.Cause(ctx))
				return ctx.Err()
			},
			"Innocent": func(context.Context) error { <-release; return nil },
		}),
	})
	k.PushClass("Innocent", []any{})
	k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
	k.Expect(testkit.Events[event.ActorCrashed]().Saying("stray").Times(1), func() { k.PushClass("Broken", []any{}) })
	k.Await("the job is to be retried", func() bool { return size(t, rdb, "retry") == 1 })
	p, err := troupe.ParsePayload([]byte(rdb.ZRange(ctx, "retry", 0, 0).Val()[0]))
	if err != nil {
		t.Fatal(err)
	}
	if class, _ := p.String("error_class"); class != "panic" {
		t.Errorf("stored as %s", p.Bytes())
	}
	if _, ok := cause.Load().(*troupe.PanicError); !ok {
		t.Errorf("the handler's context ended with %v", cause.Load())
	}
	close(release)
	k.Await("the innocent is done", func() bool { return k.Stats().Processed == 2 && inProgress(t, rdb) == 0 })
	if s := k.Stats(); s.Failed != 1 {
		t.Errorf("%+v", s)
	}
}

// A job is not settled before its goroutines have ended, however its handler ends.
func TestJobEndsWithItsGoroutines(t *testing.T) {
	for name, end := range map[string]func() error{
		"returns": func() error { return nil }, "fails": func() error { return script.Err }, "panics": func() error { panic("handler") },
	} {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Redis(t)
			release := make(chan struct{})
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Capsules: []actors.Capsule{{Concurrency: 1}},
				Registry: handlers(map[string]func(context.Context) error{"A": func(ctx context.Context) error {
					troupe.Go(ctx, func(context.Context) error { <-release; return nil })
					return end()
				}}),
			})
			k.PushClass("A", []any{})
			k.Await("its goroutine runs", func() bool { return k.Stats().Busy == 1 || name == "panics" && inProgress(t, rdb) == 1 })
			if k.Stats().Processed != 0 || inProgress(t, rdb) != 1 {
				t.Errorf("settled before its goroutine has ended: %+v", k.Stats())
			}
			close(release)
			k.Await("settled", func() bool { return inProgress(t, rdb) == 0 && k.Stats().Processed == 1 })
			if n := size(t, rdb, "retry"); (n == 1) != (name != "returns") {
				t.Errorf("%d jobs to retry", n)
			}
		})
	}
}

// unresponsiveWorld runs jobs whose class has a timeout that they do not hear. It is for a
// bubble, where that passes only once they wait.
func unresponsiveWorld(t *testing.T, replace int) (*testkit.Kit, chan struct{}) {
	t.Helper()
	release := make(chan struct{})
	var r troupe.Registry
	troupe.HandleClass(&r, "Stubborn", troupe.HandlerFunc(stubborn(release)), troupe.Options{Timeout: 20 * time.Millisecond})
	troupe.HandleClass(&r, "Quick", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
	k := testkit.Start(t, actors.Config{
		Registry: &r, Grace: 30 * time.Millisecond, Timeout: 50 * time.Millisecond,
		Capsules: []actors.Capsule{{Concurrency: 2, MaxUnresponsive: replace, Queues: fetch.Strict{"default"}}},
	})
	t.Cleanup(func() {
		select {
		case <-release:
		default:
			close(release)
		}
	})
	return k, release
}

func stubborn(release chan struct{}) func(context.Context, *troupe.Payload) error {
	return func(context.Context, *troupe.Payload) error {
		waitForRelease(release)
		return nil
	}
}

// waitForRelease is a frame to be found in a stack.
func waitForRelease(release chan struct{}) { <-release }

func unresponsiveOf(k *testkit.Kit) []actors.Unresponsive {
	n := k.Tree().Find("launcher/default")
	return n.Unresponsive
}

// A unresponsive job is shown with class, age and stack. Without a limit it keeps its slot.
func TestUnresponsiveJobsAreShownAndHoldTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, release := unresponsiveWorld(t, 0)
		k.PushClass("Stubborn", []any{})
		k.PushClass("Stubborn", []any{})
		k.Await("both are unresponsive", func() bool { return len(unresponsiveOf(k)) == 2 })
		for _, d := range unresponsiveOf(k) {
			if d.Class != "Stubborn" || d.Since.IsZero() || d.Replaced || d.Cause != troupe.ErrJobTimeout.Error() {
				t.Errorf("%+v", d)
			}
			if !strings.Contains(d.Stack, "waitForRelease") {
				t.Errorf("stack:\n%s", d.Stack)
			}
		}
		if text := k.Tree().String(); strings.Count(text, "unresponsive: Stubborn") != 2 {
			t.Errorf("tree:\n%s", text)
		}
		k.PushClass("Quick", []any{})
		if s := k.Stats(); s.Processed != 0 {
			t.Errorf("a job ran without a slot: %+v", s)
		}
		close(release)
		k.Await("all have ended", func() bool { return k.Stats().Processed == 3 && len(unresponsiveOf(k)) == 0 })
	})
}

// With a limit so many give their slots away: their jobs fail of the timeout,
// their late results are refused, and one more holds its slot.
func TestUnresponsiveJobsAreReplacedUpToTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, release := unresponsiveWorld(t, 2)
		for range 3 {
			k.PushClass("Stubborn", []any{})
		}
		k.Await("three are unresponsive, two without a slot", func() bool {
			replaced := 0
			for _, d := range unresponsiveOf(k) {
				if d.Replaced {
					replaced++
				}
			}
			return len(unresponsiveOf(k)) == 3 && replaced == 2
		})
		k.Await("two have failed", func() bool { return k.Stats().Failed == 2 })
		k.PushClass("Quick", []any{}) // by the other slot
		k.Await("a job has run", func() bool { return k.Stats().Processed == 3 })
		late := testkit.Events[event.JobLate]().AtLeast(2) // the third, if it gets the place of the first that ends
		k.Expect(late, func() { close(release) })
		k.Await("the third is done", func() bool { return len(unresponsiveOf(k)) == 0 && k.Stats().Waiting == 0 && k.Stats().Busy == 0 })
	})
}

// The stop names those that it gave up, with and without a slot.
func TestStopGivesUnresponsiveJobsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := unresponsiveWorld(t, 1)
		k.PushClass("Stubborn", []any{})
		k.PushClass("Stubborn", []any{})
		k.Await("both are unresponsive", func() bool { return len(unresponsiveOf(k)) == 2 })
		if report := k.Stop(); len(report.Abandoned) != 2 {
			t.Errorf("%v", report)
		}
	})
}

// An execution that ends at the very instant at which it is found unresponsive is not
// listed for ever.
func TestNoJobIsUnresponsiveForEver(t *testing.T) {
	for i := range 20 {
		synctest.Test(t, func(t *testing.T) {
			mem := testkit.NewMemory(t)
			var r troupe.Registry
			troupe.HandleClass(&r, "Slow", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
				time.Sleep(50 * time.Millisecond) // timeout plus grace
				return errors.New("late")
			}), troupe.Options{Timeout: 20 * time.Millisecond})
			k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Grace: 30 * time.Millisecond, Capsules: []actors.Capsule{{Concurrency: 4, MaxUnresponsive: i % 3}}})
			for range 4 {
				k.PushClass("Slow", []any{})
			}
			k.Await("all have ended", func() bool { return k.Stats().Busy == 0 && k.Stats().Processed >= 4 })
			time.Sleep(time.Second)
			if d := unresponsiveOf(k); len(d) != 0 {
				t.Error(fmt.Sprint(d))
			}
		})
	}
}
