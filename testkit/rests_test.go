package testkit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// calls have a breaker that only troupe.Rest opens; a limit without one; and by key.
func calls() *troupe.Registry {
	var jobs troupe.Registry
	troupe.HandleClass(&jobs, "Call", troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		var name string
		if err := troupe.DecodeArgs(p.Args(), &name); err != nil {
			return err
		}
		return errors.Join(troupe.Rest(ctx, name, time.Minute), troupe.Rest(ctx, name, time.Hour), troupe.Rest(ctx, name, time.Second))
	}), troupe.Options{Limits: []troupe.Limit{{Name: "api", Breaker: &troupe.Breaker{}}, {Name: "plain", AtOnce: 5}, {Name: "host", By: "0", Breaker: &troupe.Breaker{}}}})
	return &jobs
}

// What a handler has rest is told, and refused as a daemon refuses it.
func TestRestsOfOneHandler(t *testing.T) {
	ctx, told := testkit.Rests(t.Context())
	harness.OK(t, testkit.PerformClass(t, ctx, calls(), "Call", []any{"api"}))
	harness.Equal(t, "rests of one", told()["api"], time.Hour)
	for name, want := range map[string]string{"plain": "it has no Breaker", "none": "the job is not under it"} {
		if err := testkit.PerformClass(t, ctx, calls(), "Call", []any{name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %s", name, err, want)
		}
	}
	alone := func(ctx context.Context, _ *troupe.Job[Greeting]) error { return troupe.Rest(ctx, "any", time.Minute) }
	harness.OK(t, testkit.Perform(t, ctx, alone, Greeting{}))
	harness.OK(t, alone(ctx, nil))
	harness.OK(t, testkit.Perform(t, t.Context(), alone, Greeting{})) // nobody asks
	if all := told(); len(all) != 2 || all["any"] != time.Minute {
		t.Errorf("told %v", all)
	}
}

// A daemon's limit rests, and its keys do.
func TestRequireResting(t *testing.T) {
	testkit.Virtual(t, actors.Config{Registry: calls()}, func(t *testing.T, k *testkit.Kit) {
		k.PushClass("Call", []any{"host"})
		if in := time.Until(testkit.RequireResting(t, k.Redis, "host:host")); in < 59*time.Minute || in > time.Hour {
			t.Errorf("it rests for %v", in)
		}
		harness.Fails(t, func(tb testing.TB) { testkit.RequireResting(tb, k.Redis, "api") }, `expected that the limit "api" rests, got ["host:host"]`)
	})
}
