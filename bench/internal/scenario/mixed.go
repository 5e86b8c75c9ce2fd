package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/progress"
	"github.com/troupehq/troupe/bench/internal/result"
	"github.com/troupehq/troupe/internal/job"
)

// The mixed load: four processes of five processors, every 2 ms a job, of ten
// jobs one that takes 50 ms. Two and a half processors are busy with long jobs
// on average, so that always one is free somewhere; a short job that waits has
// been taken by a process that had none. In bursts a hundred jobs come at once.
const (
	mixedProcs      = 4
	mixedProcessors = 5
	mixedLong       = 50 * time.Millisecond
	mixedEach       = 10
	mixedBurst      = 100
)

func runMixed(ctx context.Context, l *Lab) error {
	for range l.Size.Rounds {
		for _, burst := range []int{1, mixedBurst} {
			for _, c := range l.contenders("troupe", "brpop") {
				if err := l.mixed(ctx, c, burst); err != nil {
					return fmt.Errorf("mixed, bursts of %d, %s: %w", burst, c.Name, err)
				}
			}
		}
	}
	return nil
}

func (l *Lab) mixed(ctx context.Context, c contender.Contender, burst int) error {
	st, err := l.open(ctx, c.Format, contender.Load{})
	if err != nil {
		return err
	}
	defer st.close()
	n := max(l.Size.Pushes, 2*burst)
	f, err := l.fleet(c, st, "", contender.Work{Concurrency: mixedProcessors}, mixedProcs, n)
	if err != nil {
		return err
	}
	defer f.stop()
	if err := f.ready(ctx, mixedProcs); err != nil {
		return err
	}
	if err := pause(ctx, l.Size.Settle/2); err != nil {
		return err
	}
	for i := 0; i < n; i += burst {
		jobs := make([]any, min(burst, n-i))
		now := progress.Now()
		for k := range jobs {
			t := contender.Task{Index: int64(i + k), At: now}
			if (i+k)%mixedEach == 0 {
				t.Sleep = mixedLong.Microseconds()
			}
			jobs[k] = contender.Bytes(t, job.NewID(), time.Now())
		}
		if err := st.Redis.LPush(ctx, "queue:default", jobs...).Err(); err != nil {
			return err
		}
		if err := pause(ctx, time.Duration(burst)*pushGap); err != nil {
			return err
		}
	}
	if err := f.until(ctx, time.Millisecond, "all jobs", func() (bool, error) { return f.progress.Done() >= int64(n), nil }); err != nil {
		return err
	}
	waits, err := micros(f.progress.Samples(n))
	if err != nil {
		return err
	}
	var short []float64
	for i, us := range waits {
		if i%mixedEach != 0 {
			short = append(short, us)
		}
	}
	kase := "one every 2 ms"
	if burst > 1 {
		kase = fmt.Sprintf("bursts of %d", burst)
	}
	row := l.Set.Row(result.Mixed, kase, c.Name, n)
	for p, m := range map[float64]result.Metric{50: result.P50, 99: result.P99, 100: result.Max} {
		row.Add(m, result.Percentile(short, p))
	}
	l.say("%-12s %-27s %-12s p99 %s µs", result.Mixed, kase, c.Name, result.Format(result.Percentile(short, 99)))
	return nil
}
