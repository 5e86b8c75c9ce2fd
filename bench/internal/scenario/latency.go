package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/meter"
	"github.com/troupehq/troupe/bench/internal/progress"
	"github.com/troupehq/troupe/bench/internal/result"
	"github.com/troupehq/troupe/internal/job"
)

// pushGap is the mean time between two pushes to idle processes.
const pushGap = 2 * time.Millisecond

// runLatency pushes single jobs to idle processes. Of the bare loops each process
// has one goroutine, which is the least that can wait for a job.
func runLatency(ctx context.Context, l *Lab) error {
	for range l.Size.Rounds {
		for _, procs := range l.Size.Processes {
			for _, c := range l.contenders("troupe", "brpop") {
				work := contender.Work{Concurrency: 10}
				if c.Name == "brpop" {
					work.Concurrency = 1
				}
				if err := l.latency(ctx, c, work, procs); err != nil {
					return fmt.Errorf("latency, %d processes of %s: %w", procs, c.Name, err)
				}
			}
		}
	}
	return nil
}

func (l *Lab) latency(ctx context.Context, c contender.Contender, work contender.Work, procs int) error {
	st, err := l.open(ctx, c.Format, contender.Load{})
	if err != nil {
		return err
	}
	defer st.close()
	n := l.Size.Pushes
	warm, counted := n/10, n/4
	f, err := l.fleet(c, st, "", work, procs, n)
	if err != nil {
		return err
	}
	defer f.stop()
	if err := f.ready(ctx, procs); err != nil {
		return err
	}
	if err := pause(ctx, l.Size.Settle/2); err != nil {
		return err
	}
	if err := push(ctx, st, f, 0, warm); err != nil {
		return err
	}
	before, err := st.usage(ctx)
	if err != nil {
		return err
	}
	if err := push(ctx, st, f, 0, n); err != nil { // over the samples of the warm-up
		return err
	}
	after, err := st.usage(ctx)
	if err != nil {
		return err
	}
	samples, err := micros(f.progress.Samples(n))
	if err != nil {
		return err
	}
	commands, err := commandsPerJob(ctx, st, f, counted)
	if err != nil {
		return err
	}

	row := l.Set.Row(result.Latency, plural(procs, "process", "processes"), c.Name, n)
	for p, m := range map[float64]result.Metric{50: result.P50, 99: result.P99, 100: result.Max} {
		row.Add(m, result.Percentile(samples, p))
	}
	used := after.Sub(before)
	row.Add(result.Trips, float64(used.Reads)/float64(n))
	row.Add(result.StoreUS, used.CPU.Seconds()*1e6/float64(n))
	row.Add(result.Commands, commands)
	l.say("%-12s %-27s %-12s p50 %s µs", result.Latency, row.Case, c.Name, result.Format(result.Percentile(samples, 50)))
	return nil
}

// push pushes n jobs, one by one, each with the time in it, and waits until they
// have run. The time in between varies, so that it beats with no timer.
func push(ctx context.Context, st *store, f *fleet, first, n int) error {
	done := f.progress.Done()
	for i := first; i < first+n; i++ {
		if err := pause(ctx, pushGap/2+rand.N(pushGap)); err != nil {
			return err
		}
		job := contender.Bytes(contender.Task{Index: int64(i), At: progress.Now()}, job.NewID(), time.Now())
		if err := st.Redis.LPush(ctx, "queue:default", job).Err(); err != nil {
			return err
		}
	}
	return f.until(ctx, time.Millisecond, "pushed jobs", func() (bool, error) { return f.progress.Done() >= done+int64(n), nil })
}

// commandsPerJob pushes n more jobs while MONITOR counts. The push is one of the
// commands; it is the driver's and added here.
func commandsPerJob(ctx context.Context, st *store, f *fleet, n int) (float64, error) {
	watch, err := meter.Watch(ctx, st.redis.Addr, st.redis.Mine)
	if err != nil {
		return 0, err
	}
	if err := push(ctx, st, f, 0, n); err != nil {
		return 0, err
	}
	if err := watch.Sync(ctx, st.Redis); err != nil {
		return 0, err
	}
	return 1 + float64(total(watch.Commands()))/float64(n), watch.Close()
}

// micros turns samples in nanoseconds into microseconds; a missing one is an error.
func micros(samples []int64) ([]float64, error) {
	out := make([]float64, len(samples))
	for i, ns := range samples {
		if ns == 0 {
			return nil, fmt.Errorf("job %d of %d left no sample", i, len(samples))
		}
		out[i] = float64(ns) / 1000
	}
	return out, nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
