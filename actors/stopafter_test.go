package actors_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
)

// stopAfter stops a capsule after n panics of its jobs within a minute: the decider of the capsule
// escalates, and that of the launcher stops the manager which has given up for this reason.
func stopAfter(n int, capsule string) (ofCapsule, ofLauncher *supervisor.Strategy) {
	var panics []time.Time
	ofCapsule = supervisor.OneForOne(supervisor.Spec{Decide: func(f supervisor.Failure) supervisor.Directive {
		if f.Job == nil {
			return supervisor.DefaultDecider(f)
		}
		now := time.Now()
		old := func(t time.Time) bool { return now.Sub(t) > time.Minute }
		if panics = append(slices.DeleteFunc(panics, old), now); len(panics) < n {
			return supervisor.Restart
		}
		return supervisor.Escalate
	}})
	ofLauncher = supervisor.OneForOne(supervisor.Spec{Decide: func(f supervisor.Failure) supervisor.Directive {
		if gaveUp, ok := errors.AsType[*supervisor.Exceeded](f.Reason); ok && gaveUp.Spec == "" && f.Capsule == capsule {
			return supervisor.Stop
		}
		return supervisor.DefaultDecider(f)
	}})
	return ofCapsule, ofLauncher
}

// The recipe of docs/supervision.md stops the capsule at the fifth panic within a minute and not before.
func TestACapsuleIsStoppedAfterPanics(t *testing.T) {
	source := string(harness.Must(os.ReadFile("stopafter_test.go"))(t))
	from := strings.Index(source, "// stopAfter stops")
	recipe := source[from : from+strings.Index(source[from:], "\n}\n")]
	if !strings.Contains(string(harness.Must(os.ReadFile("../docs/supervision.md"))(t)), recipe) {
		t.Error("docs/supervision.md has another recipe")
	}
	var r troupe.Registry
	troupe.HandleClass(&r, "Panics", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { panic("again") }))
	troupe.HandleClass(&r, "Fine", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
	ofCapsule, ofLauncher := stopAfter(5, "orders")
	cfg := actors.Config{Registry: &r, Strategy: ofLauncher, Capsules: []actors.Capsule{
		{Name: "orders", Strategy: ofCapsule}, {Name: "other", Queues: actors.Strict{"other"}},
	}}
	testkit.Virtual(t, cfg, func(t *testing.T, k *testkit.Kit) {
		k.Allow(testkit.Crashes("launcher/orders/processor-*"))
		for range 8 { // at most four of them within a minute
			k.PushClass("Panics", nil, client.Never())
			k.Skip(20 * time.Second)
		}
		k.Await("healthy", k.Healthy)
		k.Skip(time.Minute)
		k.Allow(testkit.Events[event.ActorEscalated](), testkit.Crashes("launcher/orders"))
		k.Expect(testkit.Events[event.CapsuleQuiet]().Times(1), func() {
			for range 5 {
				k.PushClass("Panics", nil, client.Never())
			}
		})
		k.PushClass("Fine", nil)
		k.PushClass("Fine", nil, client.Queue("other"))
		k.Skip(5 * time.Minute)
		harness.Equal(t, "jobs in the queue of the stopped capsule", size(t, k.Redis, "queue:default"), 1)
		harness.Equal(t, "jobs in the queue of the other", size(t, k.Redis, "queue:other"), 0)
		live := k.Health().Live
		if len(live) == 0 || live[0].Code != "actor_down" {
			t.Errorf("live: %v", live)
		}
	}, testkit.Strict())
}
