package fetch_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// BenchmarkStored is what a job of 300 bytes costs Redis beside its bytes: memory while it is
// in progress, and the append-only file from its fetch to its ack. The push is counted apart.
func BenchmarkStored(b *testing.B) {
	const size = 300
	for n, jobs := range map[int]int{1: 1000, 64: 64_000, 512: 64_000} {
		b.Run(fmt.Sprint("claims=", n), func(b *testing.B) {
			server := redistest.Start(b, "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
			defer func() { _ = rdb.Close() }()
			f, err := fetch.NewReliable(fetch.Env{
				Redis: rdb, Identity: "bench:1:0123456789ab", Capsule: "default", Queues: fetch.Strict{"a"},
				Bytes: 1 << 30, Lease: time.Minute, Logger: zerolog.Nop(),
			})
			if err != nil {
				b.Fatal(err)
			}
			if err := f.Open(b.Context()); err != nil {
				b.Fatal(err)
			}
			about := func(section, field string) float64 {
				for line := range strings.Lines(rdb.Info(b.Context(), section).Val()) {
					if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
						v, _ := strconv.ParseFloat(value, 64)
						return v
					}
				}
				b.Fatalf("INFO %s has no %s", section, field)
				return 0
			}
			for range b.N {
				start := about("persistence", "aof_current_size")
				for some := 0; some < jobs; some += 1000 {
					batch := make([]any, 1000)
					for i := range batch {
						batch[i] = bytes.Repeat([]byte("x"), size)
					}
					if err := rdb.LPush(b.Context(), "queue:a", batch...).Err(); err != nil {
						b.Fatal(err)
					}
				}
				pushed, waiting := about("persistence", "aof_current_size"), about("memory", "used_memory")
				var units []fetch.Unit
				for len(units) < jobs {
					got, err := f.Take(b.Context(), n, nil)
					if err != nil {
						b.Fatal(err)
					}
					units = append(units, got...)
				}
				held := about("memory", "used_memory")
				for len(units) > 0 {
					if _, err := f.Take(b.Context(), 0, units[:n]); err != nil {
						b.Fatal(err)
					}
					units = units[n:]
				}
				b.ReportMetric((pushed-start)/float64(jobs), "pushed-B/job")
				b.ReportMetric((about("persistence", "aof_current_size")-pushed)/float64(jobs), "aof-B/job")
				b.ReportMetric((held-waiting)/float64(jobs), "memory-B/job")
				before := about("persistence", "aof_current_size")
				for range 1000 { // pushed to a process that waits, and acked by its next call
					push := time.AfterFunc(time.Millisecond, func() { rdb.LPush(context.Background(), "queue:a", bytes.Repeat([]byte("x"), size)) })
					for got := 0; got < 1; got = len(units) {
						if err := f.Wait(b.Context(), time.Second); err != nil {
							b.Fatal(err)
						}
						if units, err = f.Take(b.Context(), 1, units); err != nil {
							b.Fatal(err)
						}
					}
					push.Stop()
				}
				b.ReportMetric((about("persistence", "aof_current_size")-before-(pushed-start)/float64(jobs)*1000)/1000, "waited-aof-B/job")
			}
			if _, err := f.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
