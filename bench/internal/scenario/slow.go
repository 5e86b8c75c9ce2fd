package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/result"
)

// runSlow drains through the same proxy without and with a delay, in pairs.
func runSlow(ctx context.Context, l *Lab) error {
	for range l.Size.Rounds {
		for _, c := range l.contenders("troupe", "brpop", "asynq") {
			n := l.jobs(c)
			if c.Name != result.Reference {
				n = max(1, l.Size.SlowJobs/5) // a round trip per job, and more
			}
			var rates [2]float64
			for i, delay := range []time.Duration{0, time.Millisecond} {
				d := drain{
					scenario: result.Slow, kase: fmt.Sprintf("%d ms each way", delay.Milliseconds()), c: c, proxied: true, delay: delay,
					load: contender.Load{Jobs: n, Queues: oneQueue}, work: contender.Work{Concurrency: 25},
				}
				o, err := l.measure(ctx, d)
				if err != nil {
					return fmt.Errorf("slow network, %s, %s: %w", d.kase, c.Name, err)
				}
				rates[i] = o.rate
				row := l.note(d, o)
				if i == 1 && rates[0] > 0 {
					row.Add(result.Kept, 100*rates[1]/rates[0])
				}
			}
		}
	}
	return nil
}
