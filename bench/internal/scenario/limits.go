package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/result"
)

// The load of limits: jobs of 10 ms, of which 5 run at once, so that 500 a second is what can be had. 25 processors take them, in one
// process or in four.
const (
	limitedAtOnce = 5
	limitedJob    = 10 * time.Millisecond
)

// runLimits drains jobs that mostly find no room. River has no limit for a fleet in its open source, only the number of workers
// of a queue in each process, so that it takes part with one process alone. Commands are counted in runs of their own.
func runLimits(ctx context.Context, l *Lab) error {
	var drains, counts []drain
	for _, procs := range []int{1, 4} {
		for _, c := range l.contenders("troupe", "asynq", "river") {
			if c.Postgres && procs > 1 {
				continue
			}
			d := drain{
				scenario: result.Limits, kase: "5 at once, " + plural(procs, "process", "processes"), c: c, procs: procs,
				load: contender.Load{Jobs: l.Size.Limited, Queues: oneQueue, Sleep: limitedJob.Microseconds()},
				work: contender.Work{Concurrency: 25, AtOnce: limitedAtOnce},
			}
			if drains = append(drains, d); !c.Postgres {
				d.count = true
				counts = append(counts, d)
			}
		}
	}
	for _, d := range counts {
		o, err := l.measure(ctx, d)
		if err != nil {
			return fmt.Errorf("%s, %s, %s: %w", d.scenario, d.kase, d.c.Name, err)
		}
		l.note(d, o)
	}
	return l.rounds(ctx, drains)
}
