package fetch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// BenchmarkWake pushes one job each 2 ms to idle processes, one of three queues
// in turn, and reports the time from before the push to the job's arrival, the
// commands that clients sent per job (two are the push), all commands with those
// inside scripts, and Redis's CPU time. Budget: p50 1.3 times that of a bare
// BRPOP loop, which loses jobs; 5 commands a job with any number of processes.
//
//	go test ./fetch -run '^$' -bench Wake -benchtime 2000x
func BenchmarkWake(b *testing.B) {
	for _, fetchers := range []int{1, 8, 32} {
		for name, start := range map[string]func(*wakeBench) (stop func()){
			"brpop": startBRPOP, "reliable": startFetcher(fetch.NewReliable), "basic": startFetcher(fetch.NewBasic),
		} {
			b.Run(fmt.Sprintf("%s/processes=%d", name, fetchers), func(b *testing.B) { benchmarkWake(b, fetchers, start) })
		}
	}
}

// BenchmarkIdle reports what a process costs while nothing is queued; its time
// is what it takes.
//
//	go test ./fetch -run '^$' -bench Idle -benchtime 20x
func BenchmarkIdle(b *testing.B) {
	const fetchers = 8
	w := newWakeBench(b)
	defer w.start(fetchers, startFetcher(fetch.NewReliable))()
	w.settle()
	before := w.stats()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for b.Loop() {
		<-tick.C
	}
	after := w.stats()
	w.report(before, after, float64(fetchers)*b.Elapsed().Seconds(), "process-s")
}

func benchmarkWake(b *testing.B, fetchers int, start func(*wakeBench) func()) {
	w := newWakeBench(b)
	defer w.start(fetchers, start)()
	ctx := b.Context()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	push := func(i int) {
		<-tick.C
		queue := w.queues[i%len(w.queues)]
		_, err := w.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.SAdd(ctx, "queues", queue)
			pipe.LPush(ctx, "queue:"+queue, strconv.FormatInt(time.Now().UnixNano(), 10)+strings.Repeat("x", 130))
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	w.settle()
	for i := range 200 {
		push(i)
	}
	w.collect(200)
	before := w.stats()
	i := 0
	for b.Loop() {
		push(i)
		i++
	}
	took := w.collect(i)
	after := w.stats()
	slices.Sort(took)
	for name, q := range map[string]int{"p50-µs": 500, "p99-µs": 990} {
		b.ReportMetric(float64(took[(len(took)-1)*q/1000].Microseconds()), name)
	}
	b.ReportMetric(0, "ns/op") // the pace of the pushes
	w.report(before, after, float64(i), "job")
}

// wakeBench is one Redis with consumers.
type wakeBench struct {
	b      *testing.B
	server *redistest.Server
	rdb    *redis.Client
	queues []string
	n      int
	took   chan time.Duration
}

func newWakeBench(b *testing.B) *wakeBench {
	server := redistest.Start(b)
	w := &wakeBench{b: b, server: server, queues: []string{"a", "b", "c"}, took: make(chan time.Duration, 1<<20)}
	w.rdb = w.client()
	return w
}

func (w *wakeBench) client() *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: w.server.Addr, MaxRetries: -1})
	w.b.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// start starts n processes, and stops them all at once: one that sits in a blocking
// command takes a second or two.
func (w *wakeBench) start(n int, start func(*wakeBench) (stop func())) (stop func()) {
	stops := make([]func(), n)
	for i := range stops {
		stops[i] = start(w)
	}
	return func() {
		var all sync.WaitGroup
		for _, stop := range stops {
			all.Go(stop)
		}
		all.Wait()
	}
}

func (w *wakeBench) arrived(payload string) {
	end := strings.IndexByte(payload, 'x')
	pushed, err := strconv.ParseInt(payload[:end], 10, 64)
	if err != nil {
		w.b.Error(err)
	}
	w.took <- time.Duration(time.Now().UnixNano() - pushed)
}

// settle lets the processes come to rest: nothing tells from outside that they wait.
func (w *wakeBench) settle() { <-time.After(time.Second) }

func (w *wakeBench) collect(n int) []time.Duration {
	took := make([]time.Duration, n)
	for i := range took {
		took[i] = <-w.took
	}
	return took
}

// wakeStats are the counters of the server.
type wakeStats struct{ sent, all, cpu float64 }

// stats reads them. Nothing that consumers send is used inside the scripts, or
// the other way round.
func (w *wakeBench) stats() wakeStats {
	var s wakeStats
	info, err := w.rdb.Info(w.b.Context(), "commandstats", "cpu").Result()
	if err != nil {
		w.b.Fatal(err)
	}
	sent := []string{"evalsha", "eval", "brpop", "blpop", "blmove", "sadd", "lpush", "ping", "client", "hello", "subscribe"}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if command, ok := strings.CutPrefix(name, "cmdstat_"); ok && command != "info" {
			_, calls, _ := strings.Cut(value, "calls=")
			calls, _, _ = strings.Cut(calls, ",")
			n, err := strconv.ParseFloat(calls, 64)
			if err != nil {
				w.b.Fatal(err)
			}
			s.all += n
			if command, _, _ = strings.Cut(command, "|"); slices.Contains(sent, command) {
				s.sent += n
			}
		}
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				w.b.Fatal(err)
			}
			s.cpu += n
		}
	}
	return s
}

func (w *wakeBench) report(before, after wakeStats, per float64, unit string) {
	w.b.ReportMetric((after.sent-before.sent)/per, "commands/"+unit)
	w.b.ReportMetric((after.all-before.all)/per, "with-inner/"+unit)
	w.b.ReportMetric((after.cpu-before.cpu)*1e6/per, "redis-µs/"+unit)
}

// startBRPOP starts a bare loop, the limit of what can be had without safety.
func startBRPOP(w *wakeBench) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	rdb := w.client()
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			got, err := rdb.BRPop(ctx, time.Second, "queue:a", "queue:b", "queue:c").Result()
			if err == nil {
				w.arrived(got[1])
			}
		}
	})
	return func() { cancel(); all.Wait() }
}

// startFetcher starts a process that does what a capsule with ten slots does.
func startFetcher(factory fetch.Factory) func(w *wakeBench) (stop func()) {
	return func(w *wakeBench) (stop func()) {
		w.n++
		f, err := factory(fetch.Env{
			Redis: w.client(), Identity: fmt.Sprintf("bench:%d:0123456789ab", w.n), Capsule: "default",
			Queues: fetch.Weighted{"a": 5, "b": 3, "c": 1}, Lease: time.Minute, Logger: zerolog.Nop(),
		})
		if err != nil {
			w.b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() {
			var acks []fetch.Unit
			for ctx.Err() == nil {
				units, err := f.Take(context.Background(), 10, acks)
				if err != nil {
					w.b.Error(err)
					return
				}
				acks = units
				for _, u := range units {
					w.arrived(string(u.Payload))
				}
				if len(units) == 0 {
					_ = f.Wait(ctx, 5*time.Second)
				}
			}
			if _, err := f.Take(context.Background(), 0, acks); err != nil {
				w.b.Error(err)
			}
			if _, err := f.Close(context.Background()); err != nil {
				w.b.Error(err)
			}
		})
		return func() { cancel(); all.Wait() }
	}
}

// BenchmarkPause reports how long after Pause a process that waits still takes a job, and how
// long after the unpause it takes the one that is there: each some seconds. Both are at most
// the longest wait.
//
//	go test ./fetch -run '^$' -bench Pause -benchtime 20x
func BenchmarkPause(b *testing.B) {
	w := newWakeBench(b)
	defer w.start(1, startFetcher(fetch.NewReliable))()
	ctx := b.Context()
	var pauses, unpauses []time.Duration
	for b.Loop() {
		time.Sleep(time.Duration(rand.Int64N(int64(2 * time.Second)))) // the phase of the poll is another one each time
		w.rdb.SAdd(ctx, "paused", "a")
		paused := time.Now()
		last := time.Duration(0)
		for time.Since(paused) < 3*time.Second && w.rdb.LLen(ctx, "queue:a").Val() == 0 {
			w.rdb.LPush(ctx, "queue:a", strconv.FormatInt(time.Now().UnixNano(), 10)+"x")
			select {
			case <-w.took:
				last = time.Since(paused)
			case <-time.After(20 * time.Millisecond):
			}
		}
		w.rdb.SRem(ctx, "paused", "a")
		unpaused := time.Now()
		<-w.took
		pauses, unpauses = append(pauses, last), append(unpauses, time.Since(unpaused))
	}
	for name, took := range map[string][]time.Duration{"pause": pauses, "unpause": unpauses} {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Milliseconds()), name+"-p50-ms")
		b.ReportMetric(float64(took[len(took)-1].Milliseconds()), name+"-max-ms")
	}
	b.ReportMetric(0, "ns/op")
}
