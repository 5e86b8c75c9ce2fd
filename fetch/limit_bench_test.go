package fetch_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// BenchmarkLimits is what n jobs of a take under one limit, which is not reached, cost Redis a job: their take, their question
// ahead of their runs, and their end; the end of jobs without limits stands beside it.
func BenchmarkLimits(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			rdb, _ := redistest.New(b)
			ctx := b.Context()
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
			rdb.HSet(ctx, "troupe:limits", "all", "1000")
			var spent [4]float64
			at := scripted(b, rdb)
			note := func(stage int) {
				now := scripted(b, rdb)
				spent[stage] += now - at
				at = now
			}
			settle := func(moves []fetch.Move) {
				if _, err := f.Settle(ctx, moves); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				jobs := make([]any, 2*n)
				for i := range jobs {
					jobs[i] = fmt.Sprintf(`{"class":"A","jid":"%024d","args":["%0100d"],"queue":"a"}`, i, i)
				}
				rdb.LPush(ctx, "queue:a", jobs...)
				at = scripted(b, rdb)
				units, err := f.Take(ctx, n, nil)
				if err != nil || len(units) != n {
					b.Fatal(len(units), err)
				}
				note(0)
				moves, ends := make([]fetch.Move, n), make([]fetch.Move, n)
				for i, u := range units {
					rules := &job.Rules{Base: "troupe:", JID: fmt.Sprintf("%024d", i), IDs: []string{"all"}, Age: float64(time.Now().UnixMicro()) / 1e6, Lease: time.Minute, Ahead: n > 1}
					moves[i] = fetch.Move{Unit: u, To: fetch.ToStay, Stay: &fetch.Stay{}, Effects: &fetch.Effects{Rules: rules}}
					ends[i] = fetch.Move{Unit: u, To: fetch.ToNone, Effects: &fetch.Effects{Rules: rules}}
				}
				settle(moves)
				note(1)
				settle(ends)
				note(2)
				if units, err = f.Take(ctx, n, nil); err != nil {
					b.Fatal(err)
				}
				at = scripted(b, rdb)
				if _, err = f.Take(ctx, 0, units); err != nil {
					b.Fatal(err)
				}
				note(3)
			}
			for i, name := range []string{"take", "ask", "end", "ack"} {
				b.ReportMetric(spent[i]/float64(b.N*n), name+"-µs/job")
			}
			if _, err := f.Close(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// scripted is how many microseconds Redis has spent in scripts.
func scripted(b *testing.B, rdb *redis.Client) float64 {
	b.Helper()
	info, err := rdb.Info(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:"); ok {
			_, rest, _ = strings.Cut(rest, "usec=")
			rest, _, _ = strings.Cut(rest, ",")
			v, err := strconv.ParseFloat(rest, 64)
			if err != nil {
				b.Fatal(err)
			}
			return v
		}
	}
	return 0
}
