//go:build unix

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

// BenchmarkLimits runs preloaded jobs under limits that are never reached, beside the same without: no-ops, and jobs that take
// 100 µs of a processor or of waiting.
func BenchmarkLimits(b *testing.B) {
	spin := func() {
		for began := time.Now(); time.Since(began) < 100*time.Microsecond; {
		}
	}
	for _, work := range []struct {
		name string
		do   func()
	}{
		{"no-op", func() {}},
		{"100µs busy", spin},
		{"100µs waiting", func() { time.Sleep(100 * time.Microsecond) }}, // what a job does that is measured
	} {
		for _, c := range []struct {
			name   string
			limits []troupe.Limit
		}{
			{"none", nil}, {"at once", []troupe.Limit{{Name: "all", AtOnce: 1000}}},
			{"by key", []troupe.Limit{{Name: "all", AtOnce: 1000, By: "0"}}},
			{"rate", []troupe.Limit{{Name: "all", Rate: 10_000_000, Burst: 1_000_000}}},
		} {
			b.Run(work.name+"/"+c.name, func(b *testing.B) {
				rdb := testkit.Redis(b)
				n := preload(b, rdb, max(b.N, 100))
				calls0, cpu0 := usage(b, rdb)
				own0 := processorTime(b)
				var r troupe.Registry
				troupe.Handle(&r, func(context.Context, *troupe.Job[noop]) error {
					work.do()
					return nil
				}, troupe.Options{Limits: c.limits})
				b.ResetTimer()
				k := testkit.Start(b, actors.Config{
					Redis: rdb, Registry: &r, Logger: zerolog.New(zerolog.NewTestWriter(b)).Level(zerolog.WarnLevel),
					Capsules: []actors.Capsule{{Concurrency: 25}},
				})
				for k.Stats().Processed < uint64(n) {
					time.Sleep(time.Millisecond) // between two looks, which cost the cores that are measured
				}
				b.ReportMetric(float64((processorTime(b)-own0).Microseconds())/float64(n), "own-µs/job")
				report(b, rdb, n, calls0, cpu0)
			})
		}
	}
}
