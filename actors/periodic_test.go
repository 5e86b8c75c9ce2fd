package actors_test

import (
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/wire/laravel"
)

// A daemon carries out what others have written to Redis, unless it is told that others do so.
func TestPeriodicElsewhere(t *testing.T) {
	for elsewhere, want := range map[bool]int64{false: 10, true: 0} {
		testkit.Virtual(t, actors.Config{PeriodicElsewhere: elsewhere, Queues: actors.Strict{"idle"}}, func(t *testing.T, k *testkit.Kit) {
			harness.OK(t, inspect.New(k.Redis).SavePeriodic(t.Context(), troupe.Periodic{Name: "n", Cron: "* * * * *", Class: "C"}))
			time.Sleep(10*time.Minute + 2*time.Second) // in a bubble
			harness.Equal(t, "jobs", k.Redis.LLen(t.Context(), "queue:default").Val(), want)
		})
	}
}

// What is wrong with periodic jobs is said before the start.
func TestPeriodicIsChecked(t *testing.T) {
	m := testkit.NewMemory(t)
	one := troupe.Periodic{Name: "n", Cron: "@daily", Class: "C"}
	for want, cfg := range map[string]actors.Config{
		`config: Periodic[1] "n": its name is there twice, expected one of each`:     {Periodic: []troupe.Periodic{one, one}},
		`config: Periodic[0] "n": Cron: cron line "61 * * * *": minute`:              {Periodic: []troupe.Periodic{{Name: "n", Cron: "61 * * * *", Class: "C"}}},
		`config: PeriodicElsewhere is true beside Periodic, expected one of the two`: {Periodic: []troupe.Periodic{one}, PeriodicElsewhere: true},
		`config: Periodic: periodic jobs are Sidekiq's, and no capsule speaks its wire`: {
			Periodic: []troupe.Periodic{one}, Capsules: []actors.Capsule{{Wire: harness.Must(laravel.New(laravel.Options{}))(t)}},
		},
	} {
		cfg.Redis, cfg.Registry = m.Client, new(troupe.Registry)
		_, err := actors.New(cfg)
		harness.ErrorHas(t, "new", err, want)
	}
}
