package run

import (
	"fmt"
	"time"

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
	behind, err := job.Behind(r.payload)
	if err == nil && len(behind) > 0 {
		if err = r.env.Reaches(r.w.Unit.Queue, keys.Queue(behind[0].Queue())); err != nil {
			err = fmt.Errorf("the next job of the chain cannot be pushed with the ack: %w", err)
		}
	}
	if err != nil {
		return troupe.Kill(err)
	}
	r.own.behind = behind
	return nil
}

// locked reads the lock of a unique job.
func (r *Run) locked() {
	lock := job.LockOf(r.payload, r.env.Cluster)
	if lock == nil && !r.env.Cluster { // that gem knows no Cluster
		lock = job.GemLockOf(r.payload)
	}
	if lock != nil && lock.Until != troupe.UntilPeriod && r.env.Reaches(r.w.Unit.Queue, lock.Key) == nil {
		r.own.lock = lock
	}
}

// unlockAtStart frees the lock of a job that holds it until its first run starts. False if the job is not ours any more.
func (r *Run) unlockAtStart() bool {
	lock := r.own.lock
	if lock == nil || lock.Until != troupe.UntilStart {
		return true
	}
	r.own.lock = nil
	move := work.NewMove(r.w, fetch.Move{To: fetch.ToStay, Stay: &fetch.Stay{}, Effects: &fetch.Effects{Lock: lock}})
	r.env.Settler.Submit(move)
	<-move.Done
	return move.Err == nil && move.Stay.Done
}

// Lock is the lock that the job holds while it runs; nil if it holds none. Safe for concurrent use.
func (r *Run) Lock() *job.Lock {
	if !r.began.Load() || r.own == nil || r.over.Load() {
		return nil
	}
	return r.own.renewed.Load()
}

// effects are those of the end of the run: its pushes if it is done, what becomes of its lock, which lives until
// for so long after that time if the job goes on, or is freed, the end of its slots, what is counted in its batch, and what is
// kept of the end of the job, which ends so; "" if it goes on. nil for nothing.
func (r *Run) effects(pushes []job.Push, end job.BatchEvent, how string, due time.Time) *fetch.Effects {
	var lock *job.Lock
	if r.own != nil {
		lock = r.own.lock
	}
	rules := r.leaves()
	if rules == nil && r.own != nil && r.own.limits != nil && r.payload != nil { // it ends without a run, and may have been let in
		rules, _ = r.rules()
	}
	count, result := r.counts(end, due), r.end(how)
	if len(pushes) == 0 && lock == nil && rules == nil && count == nil && result == nil {
		return nil
	}
	e := &fetch.Effects{Push: pushes, Lock: lock, Rules: r.said(rules), Count: count, Result: result}
	if goesOn := end == job.BatchRan || end == job.BatchWait; lock != nil && goesOn {
		e.Keep = lock.For + max(0, due.Sub(r.ended))
	}
	return e
}

// ownStart sees to a chain and to a lock before the run; false if it is not to begin.
func (r *Run) ownStart() bool {
	if r.err = r.chained(); r.err != nil {
		return false
	}
	if !r.unlockAtStart() {
		r.payload = nil
		return false
	}
	if lock := r.own.lock; lock != nil && !lock.Gem { // which has no end
		r.own.renewed.Store(lock)
	}
	return true
}

// pushes are what the job pushes as it is acked.
func (r *Run) pushes() []job.Push {
	pushes := r.job.kept.Load().End(true)
	if r.own != nil && len(r.own.behind) > 0 {
		pushes = append(pushes, job.Next(r.own.behind, r.own.batch, r.jid, r.ended, r.env.Timestamps))
	}
	return pushes
}

// doneWith acks the job in a call that has effects. It is told of when it is in Redis.
func (r *Run) doneWith(effects *fetch.Effects) {
	r.submit(fetch.Move{Unit: r.w.Unit, To: fetch.ToNone, Effects: effects}, func() {
		if r.w.Iterated != "" {
			r.env.Acked([]*work.Item{r.w})
		}
		r.unkept(effects)
		r.tellDone(len(effects.Push), effects.Left)
	})
}

// tellDone tells that the job is done.
func (r *Run) tellDone(pushed int, left []string) {
	pushed -= len(left)
	if r.env.Wanted.Load() {
		r.publish(event.JobDone{JobEvent: r.now(), Elapsed: r.elapsed, Pushed: pushed, Left: left})
	}
	line := r.line(r.env.DoneLevel, job.Done.Logged())
	if pushed > 0 {
		line = line.Int("pushed", pushed)
	}
	if len(left) > 0 {
		line = line.Int("duplicates_left_out", len(left))
	}
	line.Msg("job done")
}
