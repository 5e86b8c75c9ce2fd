package actors_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// slowSettle is a fetcher whose settling waits until it is let go.
type slowSettle struct {
	fetch.Fetcher
	gate chan struct{}
}

func (f slowSettle) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	<-f.gate
	return f.Fetcher.Settle(ctx, moves)
}

// TestASlotGoesOnWhileItsFailedJobIsStored lets one slot run three jobs that
// fail while none of them can be stored; each is told of once it is, and only then.
func TestASlotGoesOnWhileItsFailedJobIsStored(t *testing.T) {
	rdb, gate, log := testkit.Redis(t), make(chan struct{}), new(harness.Buffer)
	var ran atomic.Int64
	var r troupe.Registry
	troupe.HandleClass(&r, "Failing", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
		ran.Add(1)
		return errors.New("no")
	}))
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: &r, Logger: zerolog.New(log),
		Capsules: []actors.Capsule{{Concurrency: 1, Fetch: func(env fetch.Env) (fetch.Fetcher, error) {
			f, err := fetch.NewReliable(env)
			return slowSettle{f, gate}, err
		}}},
	})
	for range 3 {
		k.PushClass("Failing", nil)
	}
	k.Await("all have run", func() bool { return ran.Load() == 3 })
	harness.Equal(t, "failures are told of and", log.Count(`"job failed"`), 0)
	close(gate)
	r2 := k.Stop()
	harness.Equal(t, "retries are stored", size(t, rdb, "retry"), 3)
	if n := log.Count(`"job failed"`); n != 3 {
		t.Errorf("%d failures are told of after the stop, want 3: %s", n, strings.TrimSpace(r2.String()))
	}
}
