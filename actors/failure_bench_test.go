package actors_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/testkit"
)

// BenchmarkFail runs preloaded jobs that all fail through a whole daemon, until
// each is stored for its retry. Budget: 15 allocations and 3,100 bytes a job, pushing
// included, and 0.04 calls.
func BenchmarkFail(b *testing.B) {
	rdb := testkit.Redis(b)
	n := preload(b, rdb, max(b.N, 100))
	var r troupe.Registry
	failed := errors.New("this job fails")
	troupe.Handle(&r, func(context.Context, *troupe.Job[noop]) error { return failed }, troupe.Options{
		RetryIn: func(int, error, *troupe.Payload) troupe.Delay { return troupe.Delay(time.Hour) },
	})
	calls0, cpu0 := usage(b, rdb)
	b.ReportAllocs()
	b.ResetTimer()
	testkit.Start(b, actors.Config{
		Redis: rdb, Registry: &r, Logger: zerolog.New(&devNull{}).Level(zerolog.InfoLevel),
		Capsules: []actors.Capsule{{Concurrency: 25}},
	})
	for rdb.ZCard(context.Background(), "retry").Val() < int64(n) {
		time.Sleep(time.Millisecond) // a poll: the benchmark has real time
	}
	report(b, rdb, n, calls0, cpu0)
}

// devNull is a writer that testkit does not take for none.
type devNull struct{}

func (*devNull) Write(p []byte) (int, error) { return len(p), nil }
