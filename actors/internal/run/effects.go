package run

import (
	"fmt"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// This file is about what else happens in the step that settles a job.

// reaches tells whether a push of this job may be kept; if not, why.
func (r *Run) reaches(push *job.Push) error {
	key := keys.Queue(push.Queue)
	if push.Score != "" {
		key = keys.Schedule
	}
	err := r.env.Reaches(r.w.Unit.Queue, key)
	if err == nil && r.iteration != nil {
		err = r.env.Reaches(r.w.Unit.Queue, keys.Iteration(r.jid))
	}
	return err
}

// chained reads the jobs behind this one, before it is run: a chain that cannot be carried on is not begun.
func (r *Run) chained() error {
	if !job.MayChain(r.w.Unit.Payload) {
		return nil
	}
	behind, err := job.Behind(r.payload)
	if err == nil && len(behind) > 0 {
		if err = r.env.Reaches(r.w.Unit.Queue, keys.Queue(behind[0].Queue())); err != nil {
			err = fmt.Errorf("the next job of the chain cannot be pushed with the ack: %w", err)
		}
	}
	if err != nil {
		return troupe.Kill(err)
	}
	r.behind = behind
	return nil
}

// pushes are what the job pushes as it is acked, nil for nothing.
func (r *Run) pushes() *fetch.Effects {
	pushes := r.job.kept.Load().End(true)
	if len(r.behind) > 0 {
		pushes = append(pushes, job.Next(r.behind, r.jid, r.ended, r.env.Timestamps))
	}
	if len(pushes) == 0 {
		return nil
	}
	return &fetch.Effects{Push: pushes}
}

// doneWith acks the job in a call that pushes as well. It is told of when it is in Redis.
func (r *Run) doneWith(effects *fetch.Effects) {
	r.submit(fetch.Move{Unit: r.w.Unit, To: fetch.ToNone, Effects: effects}, func() {
		if r.w.Iterated != "" {
			r.env.Acked([]*work.Item{r.w})
		}
		r.tellDone(len(effects.Push))
	})
}

// tellDone tells that the job is done.
func (r *Run) tellDone(pushed int) {
	if r.env.Wanted.Load() {
		r.publish(event.JobDone{JobEvent: r.now(), Elapsed: r.elapsed, Pushed: pushed})
	}
	line := r.line(r.env.DoneLevel, job.Done.Logged())
	if pushed > 0 {
		line = line.Int("pushed", pushed)
	}
	line.Msg("job done")
}
