package actors_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// circularError wraps an error that wraps it again.
type circularError struct{ back error }

func (e *circularError) Error() string { return "circular" }
func (e *circularError) Unwrap() error { return e.back }

func circular() error {
	e := &circularError{}
	e.back = fmt.Errorf("again: %w", e)
	return e
}

// nilError has a method Unwrap that panics.
type nilError struct{ *circularError }

func (e nilError) Error() string { return "broken" }

// Whatever a job's error wraps, the job is retried like any other, wherever the error comes from.
func TestAnErrorThatWrapsItselfIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := handlers(map[string]func(context.Context) error{
			"Returns": func(context.Context) error { return circular() },
			"Panics":  func(context.Context) error { panic(circular()) },
			"Parks":   func(context.Context) error { return fmt.Errorf("later: %w", troupe.Park(time.Hour, circular())) },
			"Broken":  func(context.Context) error { return nilError{} },
			"Goroutines": func(ctx context.Context) error {
				for range 3 {
					troupe.Go(ctx, func(context.Context) error { return circular() })
				}
				return circular()
			},
			"BrokenGoroutine": func(ctx context.Context) error {
				troupe.Go(ctx, func(context.Context) error { return nilError{} })
				<-ctx.Done()
				return context.Cause(ctx)
			},
		})
		w := &walker{each: func(context.Context, string, int) error { return circular() }}
		w.ran, w.runs = map[string][]int{}, map[string]int{}
		troupe.HandleIterable(r, w.items, w.item, w.opts)
		told := make(chan string, 100)
		k := testkit.Start(t, actors.Config{
			Redis: testkit.NewMemory(t).Client, Registry: r, Capsules: []actors.Capsule{{Concurrency: 10, Queues: fetch.Strict{"default"}}},
			ErrorHandlers: []actors.ErrorHandler{func(_ context.Context, _ error, in actors.ErrorContext) { told <- in.Payload.Class() }},
		})
		failing := []string{"Returns", "Panics", "Broken", "Goroutines", "BrokenGoroutine"}
		for _, class := range append(failing, "Parks") {
			k.PushClass(class, nil)
		}
		k.PushClass("Walk", []any{3})
		time.Sleep(10 * time.Second)
		harness.Equal(t, "jobs are to be retried", size(t, k.Redis, "retry"), len(failing)+1)
		harness.Equal(t, "jobs are parked", size(t, k.Redis, "schedule"), 1)
		classes := map[string]bool{}
		for len(told) > 0 {
			classes[<-told] = true
		}
		for _, class := range append(failing, "Walk") {
			if !classes[class] {
				t.Errorf("no error handler was told of %s", class)
			}
		}
		if s := k.Stats(); s.Busy > 0 {
			t.Errorf("%d jobs still run", s.Busy)
		}
	})
}
