package actors

import (
	"time"

	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/fetch"
)

// requeue puts ws back in bulk, one guarded step a queue. A queue that refuses
// (a key of a wrong type) does not keep the others.
func (c *capsule) requeue(ws []*work) {
	byQueue := map[string][]*work{}
	for _, w := range ws {
		byQueue[w.unit.Queue] = append(byQueue[w.unit.Queue], w)
	}
	done := supervised.NewTracker()
	for _, group := range byQueue {
		done.Add(1)
		go func() {
			defer done.Done()
			if err := supervised.Isolate(func() { c.requeueQueue(group) }); err != nil {
				c.env.Log.Error().Str("actor", c.path("fetcher")).Err(err).Msg("the fetcher failed while requeueing")
			}
		}()
	}
	done.Await(c.env.Settling, done.Idle)
}

// requeueQueue puts ws, all of one queue, back until it succeeds or the end of
// the grace.
func (c *capsule) requeueQueue(ws []*work) {
	moves := make([]fetch.Move, len(ws))
	for i, w := range ws {
		moves[i] = fetch.Move{Unit: w.unit, To: fetch.ToQueue}
	}
	for try := 0; ; try++ {
		ctx, cancel := env.Within(c.env.Settling)
		results, err := c.fetcher.Settle(ctx, moves)
		cancel()
		if fenced(err) {
			c.onFenced(err)
			return
		}
		if err == nil {
			var back []JobRef
			for i, w := range ws {
				if results[i] == fetch.Moved {
					back = append(back, w.ref())
				} else {
					c.refused.Add(1)
				}
			}
			c.d.mu.Lock()
			c.d.report.Requeued = append(c.d.report.Requeued, back...)
			c.d.mu.Unlock()
			if c.d.events.wanted.Load() {
				c.d.events.publish(JobsRequeued{At: time.Now(), Capsule: c.cfg.Name, Jobs: back})
			}
			c.settled(ws...)
			c.env.Log.Info().Str("actor", c.path("fetcher")).Int("jobs", len(ws)).Msg("requeued the jobs that were still running")
			return
		}
		c.env.Outage.Failed(c.path("fetcher"), err)
		if !c.env.Pause(c.env.Settling, c.path("requeue "+ws[0].unit.Queue), try) {
			return
		}
	}
}

// noteFinished reports jobs that ended by themselves and were settled while the
// daemon was stopping.
func (d *Daemon) noteFinished(ws []*work) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state != phaseStopping {
		return
	}
	for _, w := range ws {
		own := w.byItself.Load()
		switch {
		case own && w.again.Load():
			d.report.Interrupted = append(d.report.Interrupted, w.ref())
		case own:
			d.report.Finished = append(d.report.Finished, w.ref())
		}
	}
}
