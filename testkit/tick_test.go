package testkit_test

import (
	"context"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

type nightly struct{ Kind string }

func (nightly) Class() string            { return "Nightly" }
func (nightly) Defaults() troupe.Options { return troupe.Options{Retries: troupe.Times(2)} }

// A periodic job of Go runs at its ticks, in a bubble at once.
func TestPeriodicInVirtualTime(t *testing.T) {
	var jobs troupe.Registry
	var ran []string
	troupe.Handle(&jobs, func(ctx context.Context, j *troupe.Job[nightly]) error {
		ran = append(ran, j.Args.Kind+" "+time.Now().UTC().Format(time.TimeOnly))
		return nil
	})
	cfg := actors.Config{Registry: &jobs, Zone: time.UTC, Periodic: []troupe.Periodic{{Name: "nightly", Cron: "0 4 * * *", Args: nightly{"full"}}}}
	testkit.Virtual(t, cfg, func(t *testing.T, k *testkit.Kit) {
		k.Skip(49 * time.Hour)
		harness.EqualList(t, "ran", ran, []string{"full 04:00:00", "full 04:00:00"})
		jid := k.Tick("nightly")
		k.Await("the job", func() bool { return len(ran) == 3 })
		if jid == "" || ran[2] != "full 04:00:00" {
			t.Errorf("jid %q, ran %v", jid, ran)
		}
	}, testkit.Strict())
}

// Redis has forgotten everything: the entries of the configuration are there again, those that people
// have made at run time are not; an entry that was deleted stays away.
func TestPeriodicAfterAFlush(t *testing.T) {
	cfg := actors.Config{Zone: time.UTC, PeriodicTag: "app", Periodic: []troupe.Periodic{
		{Name: "one", Cron: "0 4 * * *", Args: nightly{}}, {Name: "two", Cron: "0 5 * * *", Class: "C"},
	}}
	testkit.Virtual(t, cfg, func(t *testing.T, k *testkit.Kit) {
		looked := inspect.New(k.Redis)
		names := func() (out []string) {
			for _, j := range harness.Must(looked.PeriodicJobs(t.Context()))(t) {
				out = append(out, j.Name)
			}
			return out
		}
		k.Await("the entries are written", func() bool { return len(names()) == 2 })
		harness.OK(t, looked.SavePeriodic(t.Context(), troupe.Periodic{Name: "people's", Cron: "@daily", Class: "C"}))
		harness.OK(t, harness.Must(looked.PeriodicJob(t.Context(), "two", ""))(t).Delete(t.Context()))
		time.Sleep(2 * time.Minute) // in a bubble
		harness.EqualList(t, "after a delete", names(), []string{"one", "people's"})
		k.Redis.FlushAll(t.Context())
		time.Sleep(2 * time.Minute) // in a bubble
		harness.EqualList(t, "after a flush", names(), []string{"one", "two"})
	})
}
