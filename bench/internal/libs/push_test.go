package libs

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/bench/internal/server"
	"github.com/troupehq/troupe/client"
)

// BenchmarkPush pushes from 64 goroutines at once: SADD and LPUSH in a pipeline
// each, by go-redis's automatic pipelines, and by troupe's client, which gathers.
func BenchmarkPush(b *testing.B) {
	if err := server.RedisMissing(); err != nil {
		b.Skip(err)
	}
	const callers = 64
	for _, way := range []struct {
		name string
		push func(b *testing.B, rdb *redis.Client) func(ctx context.Context) error
	}{
		{"pipeline", func(_ *testing.B, rdb *redis.Client) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
					p.SAdd(ctx, "queues", "default")
					p.LPush(ctx, "queue:default", payload)
					return nil
				})
				return err
			}
		}},
		{"autopipeline", func(b *testing.B, rdb *redis.Client) func(context.Context) error {
			auto, err := rdb.AutoPipeline()
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = auto.Close() })
			return func(ctx context.Context) error {
				if err := auto.SAdd(ctx, "queues", "default").Err(); err != nil {
					return err
				}
				return auto.LPush(ctx, "queue:default", payload).Err()
			}
		}},
		{"troupe", func(_ *testing.B, rdb *redis.Client) func(context.Context) error {
			c := client.New(rdb)
			return func(ctx context.Context) error {
				_, err := c.PushClass(ctx, "HardJob", []any{"bob", 5, map[string]any{"deep": true}})
				return err
			}
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			s, err := server.StartRedis(b.Context(), b.TempDir(), "")
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr, PoolSize: callers})
			defer func() { _ = rdb.Close() }()
			push := way.push(b, rdb)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					for range (b.N + i) / callers {
						if err := push(b.Context()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
