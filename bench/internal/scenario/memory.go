package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/proc"
	"github.com/troupehq/troupe/bench/internal/result"
	"github.com/troupehq/troupe/internal/job"
)

// runMemory watches one process over many jobs, and while it drains large ones.
func runMemory(ctx context.Context, l *Lab) error {
	for _, c := range l.contenders("troupe") {
		if err := l.flow(ctx, c); err != nil {
			return fmt.Errorf("memory of %s: %w", c.Name, err)
		}
	}
	var drains []drain
	for _, c := range l.contenders("troupe", "brpop") {
		for _, size := range l.Size.Payloads {
			drains = append(drains, drain{
				scenario: result.Memory, kase: result.Count(size) + " bytes each", c: c,
				load: contender.Load{Jobs: max(50, l.Size.Volume/size), Queues: oneQueue, Pad: size},
				work: contender.Work{Concurrency: 25},
			})
		}
	}
	return l.rounds(ctx, drains)
}

// flow keeps a queue filled until many jobs have passed, and looks at the memory
// of the process after each twentieth of them.
func (l *Lab) flow(ctx context.Context, c contender.Contender) error {
	st, err := l.open(ctx, c.Format, contender.Load{})
	if err != nil {
		return err
	}
	defer st.close()
	f, err := l.fleet(c, st, "", contender.Work{Concurrency: 25}, 1, 0)
	if err != nil {
		return err
	}
	defer f.stop()

	const batch, steps = 1000, 20
	jobs := make([]any, batch)
	for i := range jobs {
		jobs[i] = contender.Bytes(contender.Task{Index: int64(i)}, job.NewID(), time.Now())
	}
	n := int64(l.Size.Memory)
	var pushed int64
	var rss []float64
	start := time.Now()
	err = f.until(ctx, time.Millisecond, "all jobs", func() (bool, error) {
		done := f.progress.Done()
		for done >= n*int64(len(rss)+1)/steps && len(rss) < steps {
			rss = append(rss, float64(proc.RSS(f.procs[0].PID()))/(1<<20))
		}
		for pushed < n && pushed-done < 100*batch {
			if err := st.Redis.LPush(ctx, "queue:default", jobs...).Err(); err != nil {
				return false, err
			}
			pushed += batch
		}
		return done >= n, nil
	})
	if err != nil {
		return err
	}
	took := time.Since(start).Seconds()
	row := l.Set.Row(result.Memory, result.Count(int(n))+" jobs", c.Name, int(n))
	row.Add(result.Rate, float64(n)/took)
	row.Add(result.RSS, f.peak())
	early := result.Median(rss[steps/5-1 : steps/5+2])
	row.Add(result.Growth, 100*(result.Median(rss[steps-3:])/early-1))
	l.say("%-12s %-27s %-12s RSS MB %.1f", result.Memory, row.Case, c.Name, rss)
	return nil
}
