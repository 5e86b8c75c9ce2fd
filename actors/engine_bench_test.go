//go:build unix

package actors_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/testkit"
)

// BenchmarkEngine runs no-op jobs through a whole daemon whose fetcher makes them
// up: what a job costs besides Redis and its client.
func BenchmarkEngine(b *testing.B) {
	f := &endless{trip: 500 * time.Microsecond}
	f.left.Store(int64(max(b.N, 100)))
	n := uint64(f.left.Load())
	var r troupe.Registry
	troupe.HandleClass(&r, "NoOp", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
	rdb := testkit.Redis(b)
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime(b)
	k := testkit.Start(b, actors.Config{
		Redis: rdb, Registry: &r, Logger: zerolog.New(&devNull{}).Level(zerolog.WarnLevel),
		Capsules: []actors.Capsule{{Concurrency: 25, Fetch: func(fetch.Env) (fetch.Fetcher, error) { return f, nil }}},
	})
	for k.Stats().Processed < n {
		time.Sleep(time.Millisecond) // between two looks, which cost the cores that are measured
	}
	b.StopTimer()
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(n), "cpu-ns/job")
	b.ReportMetric(float64(n)/float64(f.calls.Load()), "jobs/call")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// endless is a fetcher whose queue is full until so many jobs were taken.
type endless struct {
	trip  time.Duration
	left  atomic.Int64
	calls atomic.Int64
}

func (f *endless) Open(context.Context) error { return nil }

func (f *endless) Take(_ context.Context, n int, _ []fetch.Unit) ([]fetch.Unit, error) {
	f.calls.Add(1)
	time.Sleep(f.trip) // a call takes as long
	n = int(min(int64(n), f.left.Load()))
	last := f.left.Add(-int64(n))
	us := make([]fetch.Unit, n)
	for i := range us {
		us[i] = fetch.Unit{
			Queue: "default", Receipt: "r",
			Payload: []byte(`{"retry":true,"queue":"default","class":"NoOp","args":[1,"some text"],"jid":"0123456789abcdef` +
				strconv.FormatInt(10_000_000+last+int64(i), 10) + `","created_at":1763753954.123,"enqueued_at":1763753954.123}`),
		}
	}
	return us, nil
}

func (f *endless) Wait(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

func (f *endless) Settle(_ context.Context, ms []fetch.Move) ([]fetch.Result, error) {
	f.left.Add(int64(len(ms))) // given back: what waited too long on a busy machine
	return make([]fetch.Result, len(ms)), nil
}

func (f *endless) Renew(context.Context) error        { return nil }
func (f *endless) Close(context.Context) (int, error) { return 0, nil }
func (f *endless) Durable() bool                      { return false }
