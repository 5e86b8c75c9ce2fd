package actors_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/testkit"
)

// leaver is an error that ends the goroutine of whoever reads it: always, or the
// first time.
type leaver struct {
	once bool
	read *atomic.Int64
}

func (l leaver) Error() string {
	if l.read.Add(1) == 1 || !l.once {
		runtime.Goexit()
	}
	return "at last"
}

// TestAnErrorThatLeavesTheGoroutine is stored like any other failure, and its slot
// runs the next job.
func TestAnErrorThatLeavesTheGoroutine(t *testing.T) {
	for _, once := range []bool{true, false} {
		rdb := testkit.Redis(t)
		var r troupe.Registry
		troupe.HandleClass(&r, "Leaves", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
			return leaver{once, new(atomic.Int64)}
		}))
		var ran atomic.Int64
		troupe.HandleClass(&r, "Next", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { ran.Add(1); return nil }))
		k := testkit.Start(t, actors.Config{
			Redis: rdb, Registry: &r, Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 1}},
		})
		for range 3 {
			k.PushClass("Leaves", nil)
			k.PushClass("Next", nil)
		}
		k.Await("all have run", func() bool { return ran.Load() == 3 && size(t, rdb, "retry") == 3 })
		k.Stop()
		if n := inProgress(t, rdb); n != 0 {
			t.Errorf("once %v: %d jobs are in progress after the stop", once, n)
		}
	}
}
