package sched_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe/actors/internal/sched"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// BenchmarkPromote moves 10,000 due jobs. Budget of the default batch: 8 µs and 11
// allocations a job for this process and Redis together on one core.
func BenchmarkPromote(b *testing.B) {
	for _, batch := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			rdb, _ := redistest.New(b)
			const n = 10_000
			members := make([]string, n)
			for i := range members {
				members[i] = job(i, "q")
			}
			s := sched.New(sched.Config{Redis: rdb, Batch: batch})
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				rdb.FlushDB(context.Background())
				add(b, rdb, keys.Retry, time.Now().Add(-time.Hour), members...)
				b.StartTimer()
				if got := drain(b, s, keys.Retry); got.Moved != n {
					b.Fatal(got)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkPromoteNothing is what an idle process pays per interval and set.
func BenchmarkPromoteNothing(b *testing.B) {
	rdb, _ := redistest.New(b)
	add(b, rdb, keys.Schedule, time.Now().Add(time.Hour), job(1, "q"))
	s := sched.New(sched.Config{Redis: rdb})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Promote(b.Context(), keys.Schedule); err != nil {
			b.Fatal(err)
		}
	}
}
