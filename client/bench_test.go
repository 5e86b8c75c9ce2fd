package client_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/redistest"
)

type note struct {
	Who   string `arg:"0"`
	Times int    `arg:"1"`
}

func (note) Class() string { return "NoteJob" }

// BenchmarkPush costs at most 1.15 times BenchmarkBarePipeline.
func BenchmarkPush(b *testing.B) {
	rdb, _ := redistest.New(b)
	c := client.New(rdb)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Push(b.Context(), note{"bob", 5}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBarePipeline(b *testing.B) {
	rdb, _ := redistest.New(b)
	raw := make([]byte, 165)
	b.ReportAllocs()
	for b.Loop() {
		pipe := rdb.Pipeline()
		pipe.SAdd(b.Context(), "queues", "default")
		pipe.LPush(b.Context(), "queue:default", raw)
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPushBulk reports jobs/s: at least 400,000 with Redis on the same two cores.
func BenchmarkPushBulk(b *testing.B) {
	rdb, _ := redistest.New(b)
	c := client.New(rdb)
	const n = 10_000
	seq := func(yield func(note) bool) {
		for i := range n {
			if !yield(note{"bob", i}) {
				return
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.PushBulk(b.Context(), c, seq); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		rdb.Del(b.Context(), "queue:default")
		b.StartTimer()
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkPushParallel has 64 goroutines push at once.
func BenchmarkPushParallel(b *testing.B) {
	for _, n := range []int{4, 8, 16, 64, 256} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			rdb, _ := redistest.New(b)
			c := client.New(rdb)
			b.ReportAllocs()
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := c.Push(b.Context(), note{"bob", 5}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
