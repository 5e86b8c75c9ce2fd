package actors_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/testkit"
)

// BenchmarkCollect runs preloaded jobs whose statement takes 1 ms: one for each job, beside one for up to 100 of them, and
// beside jobs that do nothing.
func BenchmarkCollect(b *testing.B) {
	statement := func() { time.Sleep(time.Millisecond) } // what a job does that is measured
	for _, c := range []struct {
		name     string
		register func(r *troupe.Registry)
	}{
		{"one", func(r *troupe.Registry) {
			troupe.Handle(r, func(context.Context, *troupe.Job[noop]) error { statement(); return nil })
		}},
		{"100", func(r *troupe.Registry) {
			troupe.HandleMany(r, func(context.Context, []*troupe.Job[noop]) []error { statement(); return nil }, troupe.Collect{Max: 100})
		}},
		{"no-op", func(r *troupe.Registry) {
			troupe.Handle(r, func(context.Context, *troupe.Job[noop]) error { return nil })
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			rdb := testkit.Redis(b)
			n := preload(b, rdb, max(b.N, 100))
			calls0, cpu0 := usage(b, rdb)
			var r troupe.Registry
			c.register(&r)
			b.ResetTimer()
			k := testkit.Start(b, actors.Config{
				Redis: rdb, Registry: &r, Logger: zerolog.New(zerolog.NewTestWriter(b)).Level(zerolog.WarnLevel),
				Capsules: []actors.Capsule{{Concurrency: 10}},
			})
			for k.Stats().Processed < uint64(n) {
				time.Sleep(time.Millisecond) // between two looks, which cost the cores that are measured
			}
			report(b, rdb, n, calls0, cpu0)
		})
	}
}
