package actors_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// angry is an error whose text cannot be read once it is angry.
type angry struct{ now *atomic.Bool }

func (e *angry) Error() string {
	if e.now.Load() {
		panic("a bug in an error of the user's")
	}
	return "quiet"
}

// A hook of the logger that panics at every line costs lines, and perhaps actors; the process
// lives, unresponsive jobs are given up, and a stop comes to its end.
func TestALogHookThatPanicsEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var armed atomic.Bool
		var lines atomic.Int64
		hook := zerolog.HookFunc(func(*zerolog.Event, zerolog.Level, string) {
			if lines.Add(1); armed.Load() {
				panic("a bug in a hook of the user's")
			}
		})
		release := make(chan struct{})
		var r troupe.Registry
		troupe.HandleClass(&r, "Stubborn", troupe.HandlerFunc(stubborn(release)), troupe.Options{Timeout: time.Second})
		troupe.HandleClass(&r, "Angry", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
			troupe.Go(ctx, func(context.Context) error { return &angry{&armed} }) // the cause of the context's end
			<-release
			return errors.New("ended")
		}))
		k := testkit.Start(t, actors.Config{
			Redis: testkit.NewMemory(t).Client, Registry: &r, Logger: zerolog.New(io.Discard).Hook(hook), Timeout: time.Second,
			Capsules: []actors.Capsule{{Concurrency: 4, Queues: fetch.Strict{"default"}, MaxUnresponsive: 1}},
		})
		k.Daemon.Subscribe(func(event.Event) { panic("a bug in a subscriber") })
		k.PushClass("Stubborn", nil)
		k.PushClass("Angry", nil)
		time.Sleep(500 * time.Millisecond)
		armed.Store(true)
		before := lines.Load()
		time.Sleep(time.Minute)
		harness.Equal(t, "jobs to be retried, want the one that was given up", size(t, k.Redis, "retry"), 1)
		began := time.Now()
		k.Quiet()
		report := k.Stop()
		if took := time.Since(began); took > 9*time.Second {
			t.Errorf("the stop took %v: %s", took, report)
		}
		if lines.Load() == before {
			t.Error("the hook was not called")
		}
		close(release)
	})
}
