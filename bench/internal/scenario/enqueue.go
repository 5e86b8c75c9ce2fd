package scenario

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/result"
)

// runEnqueue lets a process push jobs that nobody runs.
func runEnqueue(ctx context.Context, l *Lab) error {
	for range l.Size.Rounds {
		for _, push := range []contender.Push{
			{Mode: contender.Single, Jobs: l.Size.Single},
			{Mode: contender.Few, Jobs: l.Size.Parallel},
			{Mode: contender.Parallel, Jobs: l.Size.Parallel},
			{Mode: contender.Bulk, Jobs: l.Size.Bulk},
		} {
			for _, c := range l.contenders("troupe", "brpop", "asynq", "gocraft-work") {
				if push.Mode == contender.Bulk && c.Slow {
					continue // it has no bulk push
				}
				if err := l.enqueue(ctx, c, push); err != nil {
					return fmt.Errorf("enqueue, %s, %s: %w", push.Mode, c.Name, err)
				}
			}
		}
	}
	return nil
}

func (l *Lab) enqueue(ctx context.Context, c contender.Contender, push contender.Push) error {
	if c.Slow && push.Goroutines() > 1 {
		push.Jobs /= 4
	}
	st, err := l.open(ctx, c.Format, contender.Load{})
	if err != nil {
		return err
	}
	defer st.close()
	samples := 0
	if push.Mode == contender.Single {
		samples = push.Jobs
	}
	f, err := l.fleet(c, st, "", contender.Work{Push: &push}, 1, samples)
	if err != nil {
		return err
	}
	defer f.stop()
	if err := f.until(ctx, time.Millisecond/2, "first push", func() (bool, error) { return f.progress.Done() > 0, nil }); err != nil {
		return err
	}
	first := l.reading(ctx, st, f, nil)
	err = f.until(ctx, time.Millisecond, "all pushes", func() (bool, error) { return f.progress.Done() >= int64(push.Jobs), nil })
	if err != nil {
		return err
	}
	end := time.Now()
	last := l.reading(ctx, st, f, nil)
	last.at = end
	if first.err != nil || last.err != nil {
		return fmt.Errorf("read the store: %w, %w", first.err, last.err)
	}
	if left, err := c.Left(ctx, st.Store); err != nil || left != int64(push.Jobs) {
		return fmt.Errorf("%d jobs in the queue, expected %d: %w", left, push.Jobs, err)
	}
	o := last.since(first)
	name := cmp.Or(c.Pusher, c.Name)
	row := l.Set.Row(result.Enqueue, push.Mode, name, push.Jobs)
	row.Add(result.Rate, o.rate)
	row.Add(result.WorkerUS, o.workerUS)
	row.Add(result.StoreUS, o.storeUS)
	row.Add(result.Trips, o.trips)
	if samples > 0 {
		took, err := micros(f.progress.Samples(samples))
		if err != nil {
			return err
		}
		row.Add(result.P50, result.Percentile(took, 50))
		row.Add(result.P99, result.Percentile(took, 99))
	}
	l.say("%-12s %-27s %-12s %s jobs/s", result.Enqueue, push.Mode, name, result.Format(o.rate))
	return nil
}
