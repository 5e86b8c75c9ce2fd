package actors_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/testkit"
)

// BenchmarkWithin is BenchmarkFail of jobs that do not fail but push one job each with their ack, into a queue that
// nobody serves. Budget: 1.5 times the time of BenchmarkFail.
func BenchmarkWithin(b *testing.B) {
	rdb := testkit.Redis(b)
	n := preload(b, rdb, max(b.N, 100))
	var r troupe.Registry
	troupe.Handle(&r, func(ctx context.Context, _ *troupe.Job[noop]) error {
		_, err := client.Within(ctx).Push(ctx, noop{}, client.Queue("low"))
		return err
	})
	calls0, cpu0 := usage(b, rdb)
	b.ReportAllocs()
	b.ResetTimer()
	testkit.Start(b, actors.Config{
		Redis: rdb, Registry: &r, Logger: zerolog.New(&devNull{}).Level(zerolog.InfoLevel),
		Capsules: []actors.Capsule{{Concurrency: 25}},
	})
	for rdb.LLen(context.Background(), "queue:low").Val() < int64(n) {
		time.Sleep(time.Millisecond) // a poll: the benchmark has real time
	}
	report(b, rdb, n, calls0, cpu0)
}
