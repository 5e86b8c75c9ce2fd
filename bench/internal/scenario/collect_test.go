package scenario

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/redistest"
)

type row struct{ N int }

func (row) Class() string { return "Row" }

// BenchmarkCollect performs jobs that wait, up to 100 of them in a call whose statement takes 1 ms, with 10 processors: by
// troupe.HandleMany, beside asynq's Group of up to 100 tasks, with its shortest grace period, and of any number. A job is
// counted when its call has been made; calls/s and jobs/call tell how they were collected.
//
//	cd bench && go test ./internal/scenario -run '^$' -bench Collect -benchtime 5000x
func BenchmarkCollect(b *testing.B) {
	for _, c := range []struct {
		name string
		run  func(b *testing.B, addr string, n int, call func(jobs int))
	}{
		{"troupe/100", collectTroupe},
		{"asynq/100", func(b *testing.B, addr string, n int, call func(int)) { collectAsynq(b, addr, n, 100, call) }},
		{"asynq/all", func(b *testing.B, addr string, n int, call func(int)) { collectAsynq(b, addr, n, 0, call) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			_, url := redistest.New(b)
			var calls, jobs atomic.Int64
			c.run(b, url, b.N, func(n int) {
				time.Sleep(time.Millisecond) // the statement
				calls.Add(1)
				jobs.Add(int64(n))
			})
			for jobs.Load() < int64(b.N) {
				time.Sleep(time.Millisecond) // between two looks, which cost the cores that are measured
			}
			took := b.Elapsed().Seconds()
			b.ReportMetric(float64(jobs.Load())/took, "jobs/s")
			b.ReportMetric(float64(jobs.Load())/float64(calls.Load()), "jobs/call")
		})
	}
}

func collectTroupe(b *testing.B, url string, n int, call func(int)) {
	b.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		b.Fatal(err)
	}
	rdb := redis.NewClient(options)
	b.Cleanup(func() { _ = rdb.Close() })
	c := client.New(rdb)
	items := make([]client.Item, n)
	for i := range items {
		items[i] = client.Job(row{i})
	}
	if _, err := c.PushMany(b.Context(), items...); err != nil {
		b.Fatal(err)
	}
	var r troupe.Registry
	troupe.HandleMany(&r, func(_ context.Context, jobs []*troupe.Job[row]) []error { call(len(jobs)); return nil }, troupe.Collect{Max: 100})
	d, err := actors.New(actors.Config{Redis: rdb, Registry: &r, Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 10}}})
	if err == nil {
		b.ResetTimer()
		err = d.Start(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = d.Stop(context.Background()) })
}

func collectAsynq(b *testing.B, url string, n, most int, call func(int)) {
	b.Helper()
	opt, err := asynq.ParseRedisURI(url)
	if err != nil {
		b.Fatal(err)
	}
	c := asynq.NewClient(opt)
	b.Cleanup(func() { _ = c.Close() })
	for i := range n {
		if _, err := c.Enqueue(asynq.NewTask("row", fmt.Appendf(nil, "%d", i)), asynq.Group("rows")); err != nil {
			b.Fatal(err)
		}
	}
	s := asynq.NewServer(opt, asynq.Config{
		Concurrency: 10, LogLevel: asynq.ErrorLevel, TaskCheckInterval: time.Millisecond,
		GroupGracePeriod: time.Second, GroupMaxSize: most, // a second is the shortest that it takes
		GroupAggregator: asynq.GroupAggregatorFunc(func(_ string, tasks []*asynq.Task) *asynq.Task {
			return asynq.NewTask("rows", fmt.Appendf(nil, "%d", len(tasks)))
		}),
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc("rows", func(_ context.Context, t *asynq.Task) error {
		var jobs int
		_, err := fmt.Sscan(string(t.Payload()), &jobs)
		call(jobs)
		return err
	})
	b.ResetTimer()
	if err := s.Start(mux); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Shutdown)
}
