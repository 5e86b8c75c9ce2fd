package actors

import (
	"time"

	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
)

// requeue puts ws back in bulk, one guarded step a queue. A queue that refuses
// (a key of a wrong type) does not keep the others.
func (c *capsule) requeue(ws []*work.Item) {
	byQueue := map[string][]*work.Item{}
	for _, w := range ws {
		byQueue[w.Unit.Queue] = append(byQueue[w.Unit.Queue], w)
	}
	done := supervised.NewTracker()
	for _, group := range byQueue {
		done.Add(1)
		go func() {
			defer done.Done()
			if err := supervised.Isolate(func() { c.requeueQueue(group) }); err != nil {
				supervised.Tell(func() {
					c.env.Log.Error().Str("actor", c.path("fetcher")).Err(err).Msg("the fetcher failed while requeueing")
				})
			}
		}()
	}
	done.Await(c.env.Settling, done.Idle)
}

// requeueQueue puts ws, all of one queue, back until it succeeds or the end of
// the grace.
func (c *capsule) requeueQueue(ws []*work.Item) {
	for try := 0; len(ws) > 0; try++ {
		moves := make([]fetch.Move, len(ws))
		for i, w := range ws {
			moves[i] = fetch.Move{Unit: w.Unit, To: fetch.ToQueue}
			if r, ok := w.Job.(*run.Run); ok {
				moves[i].Effects = r.Requeued()
			}
		}
		ctx, cancel := env.Within(c.env.Settling)
		results, err := c.Settle(ctx, moves)
		cancel()
		if fenced(err) { // those of the next incarnation are still ours
			ws = c.ledger.Ours(ws)
		}
		if err == nil {
			var back []*work.Item
			for i, w := range ws {
				if results[i] == fetch.Moved {
					back = append(back, w)
				}
			}
			jobs := refsOf(back)
			c.drain.add(func(r *DrainReport) { r.Requeued = append(r.Requeued, jobs...) })
			c.events.publish(event.JobsRequeued{At: time.Now(), Capsule: c.cfg.Name, Jobs: jobs})
			c.Settled(ws...)
			c.env.Log.Info().Str("actor", c.path("fetcher")).Int("jobs", len(back)).Msg("requeued the jobs that were still running")
			return
		}
		if len(ws) > 0 && !c.env.Pause(c.env.Settling, c.path("requeue "+ws[0].Unit.Queue), try) {
			return
		}
	}
}
