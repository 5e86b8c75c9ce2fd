package fetch_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// BenchmarkTake is a take of n units that acks the n before, per unit. Budget
// for n = 100: 3.5 µs and 1.2 allocations, Redis and its client included.
func BenchmarkTake(b *testing.B) {
	for name, factory := range map[string]fetch.Factory{"reliable": fetch.NewReliable, "basic": fetch.NewBasic} {
		for _, n := range []int{1, 25, 100} {
			for _, queues := range []fetch.Queues{fetch.Strict{"a"}, fetch.Weighted{"a": 5, "b": 3, "c": 1}} {
				b.Run(fmt.Sprintf("%s/batch=%d/queues=%d", name, n, len(queues.List())), func(b *testing.B) {
					benchmarkTake(b, factory, queues, n)
				})
			}
		}
	}
}

func benchmarkTake(b *testing.B, factory fetch.Factory, queues fetch.Queues, n int) {
	rdb, _ := redistest.New(b)
	ctx := context.Background()
	f, err := factory(fetch.Env{
		Redis: rdb, Identity: "bench:1:0123456789ab", Capsule: "default", Queues: queues,
		Lease: time.Minute, Logger: zerolog.Nop(),
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := f.Open(ctx); err != nil {
		b.Fatal(err)
	}
	refill(b, rdb, queues, n)
	var acks []fetch.Unit
	b.ReportAllocs()
	for b.Loop() {
		units, err := f.Take(ctx, n, acks)
		if err != nil {
			b.Fatal(err)
		}
		if acks = units; len(units) < n {
			b.StopTimer()
			refill(b, rdb, queues, n)
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/unit")
	if _, err := f.Take(ctx, 0, acks); err != nil {
		b.Fatal(err)
	}
	if err := rdb.FlushDB(ctx).Err(); err != nil {
		b.Fatal(err)
	}
	if _, err := f.Close(ctx); err != nil {
		b.Fatal(err)
	}
}

// refill pushes about 20,000 jobs of 150 bytes.
func refill(b *testing.B, rdb *redis.Client, queues fetch.Queues, n int) {
	b.Helper()
	list := queues.List()
	job := bytes.Repeat([]byte("x"), 150)
	pipe := rdb.Pipeline()
	for range 20 {
		for _, q := range list {
			jobs := make([]any, 1000/len(list)+n)
			for i := range jobs {
				jobs[i] = job
			}
			pipe.LPush(b.Context(), "queue:"+q.Queue, jobs...)
		}
	}
	if _, err := pipe.Exec(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSettle is the retry of n units with new bytes, per unit. Budget for
// n = 100: 5 µs and 1.2 allocations, Redis and its client included.
func BenchmarkSettle(b *testing.B) {
	for _, n := range []int{1, 25, 100} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			rdb, _ := redistest.New(b)
			ctx := context.Background()
			f, err := fetch.NewReliable(fetch.Env{
				Redis: rdb, Identity: "bench:1:0123456789ab", Capsule: "default", Queues: fetch.Strict{"a"},
				Lease: time.Minute, Logger: zerolog.Nop(),
			})
			if err != nil {
				b.Fatal(err)
			}
			if err := f.Open(ctx); err != nil {
				b.Fatal(err)
			}
			payload := bytes.Repeat([]byte("x"), 400)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				jobs := make([]any, n)
				for i := range jobs {
					jobs[i] = payload[:150]
				}
				rdb.Del(ctx, "retry")
				rdb.LPush(ctx, "queue:a", jobs...)
				units, err := f.Take(ctx, n, nil)
				if err != nil {
					b.Fatal(err)
				}
				moves := make([]fetch.Move, len(units))
				for i, u := range units {
					moves[i] = fetch.Move{Unit: u, To: fetch.ToRetry, Score: float64(i), Payload: append(payload[:400:400], u.Receipt...)}
				}
				b.StartTimer()
				if _, err := f.Settle(ctx, moves); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/unit")
			b.StopTimer()
			if err := rdb.FlushDB(ctx).Err(); err != nil {
				b.Fatal(err)
			}
			if _, err := f.Close(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkEmptyTake is a take that finds nothing in many queues, and what it costs Redis.
func BenchmarkEmptyTake(b *testing.B) {
	for _, n := range []int{3, 50, 1000, 8000} {
		b.Run(fmt.Sprint("queues=", n), func(b *testing.B) {
			w := newWakeBench(b)
			names := make(fetch.Strict, n)
			for i := range names {
				names[i] = fmt.Sprint("q", i)
			}
			f, err := fetch.NewReliable(fetch.Env{
				Redis: w.rdb, Identity: "bench:1:0123456789ab", Capsule: "default", Queues: names,
				Lease: time.Minute, Logger: zerolog.Nop(),
			})
			if err != nil {
				b.Fatal(err)
			}
			if err := f.Open(b.Context()); err != nil {
				b.Fatal(err)
			}
			if _, err := f.Take(b.Context(), 10, nil); err != nil { // Redis knows the script
				b.Fatal(err)
			}
			before := w.stats()
			for b.Loop() {
				if _, err := f.Take(b.Context(), 10, nil); err != nil {
					b.Fatal(err)
				}
			}
			w.report(before, w.stats(), float64(b.N), "take")
		})
	}
}
