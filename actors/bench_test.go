package actors_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/testkit"
)

// BenchmarkDrain runs preloaded no-op jobs through a whole daemon: typed handler,
// one middleware, reliable fetch, heartbeat and statistics on.
func BenchmarkDrain(b *testing.B) {
	for name, factory := range map[string]fetch.Factory{"reliable": fetch.NewReliable, "basic": fetch.NewBasic} {
		b.Run(name, func(b *testing.B) {
			rdb := testkit.Redis(b)
			n := preload(b, rdb, max(b.N, 100))
			calls0, cpu0 := usage(b, rdb)
			b.ReportAllocs()
			b.ResetTimer()
			drain(b, rdb, factory, n, func(*actors.Daemon) {})
			report(b, rdb, n, calls0, cpu0)
		})
	}
}

// drain starts a daemon, which started is called with, and waits until it has run n jobs.
func drain(b *testing.B, rdb redis.UniversalClient, factory fetch.Factory, n int, started func(*actors.Daemon)) *testkit.Kit {
	b.Helper()
	var r troupe.Registry
	troupe.Handle(&r, func(context.Context, *troupe.Job[noop]) error { return nil })
	k := testkit.Start(b, actors.Config{
		Redis: rdb, Registry: &r, Logger: zerolog.New(zerolog.NewTestWriter(b)).Level(zerolog.WarnLevel),
		Middleware: []troupe.Middleware{func(next troupe.Handler) troupe.Handler {
			return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error { return next.Perform(ctx, p) })
		}},
		Capsules: []actors.Capsule{{Concurrency: 25, Fetch: factory}},
	})
	started(k.Daemon)
	for k.Stats().Processed < uint64(n) {
		time.Sleep(time.Millisecond) // between two looks, which cost the cores that are measured
	}
	return k
}

type noop struct {
	I int64  `arg:"0"`
	S string `arg:"1"`
}

func (noop) Class() string { return "NoOp" }

// preload pushes the n jobs of a benchmark.
func preload(b *testing.B, rdb redis.UniversalClient, n int) int {
	b.Helper()
	if _, err := client.PushBulk(context.Background(), client.New(rdb), func(yield func(noop) bool) {
		for i := range n {
			if !yield(noop{I: int64(i), S: "some text"}) {
				return
			}
		}
	}); err != nil {
		b.Fatal(err)
	}
	return n
}

// report ends a benchmark that began at these values of usage.
func report(b *testing.B, rdb redis.UniversalClient, n int, calls0, cpu0 float64) {
	b.Helper()
	b.StopTimer()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "jobs/s")
	calls, cpu := usage(b, rdb)
	b.ReportMetric((calls-calls0)/float64(n), "calls/job")
	b.ReportMetric((cpu-cpu0)*1e6/float64(n), "redis-µs/job")
}

// usage reads how many scripts and pops Redis has run for its clients, and the
// seconds of CPU that it has used.
func usage(b *testing.B, rdb redis.UniversalClient) (calls, cpu float64) {
	info, err := rdb.Info(context.Background(), "cpu", "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_cpu_sys", "used_cpu_user":
			f, _ := strconv.ParseFloat(value, 64)
			cpu += f
		case "cmdstat_evalsha", "cmdstat_brpop":
			n, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			f, _ := strconv.ParseFloat(n, 64)
			calls += f
		}
	}
	return calls, cpu
}
