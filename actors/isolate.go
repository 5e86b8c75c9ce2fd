package actors

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/words"
)

const (
	// clearTime is how long suspects wait for running jobs to end and for a slot, so that they
	// begin alone. They share this time: a job that runs for long delays all of them once.
	clearTime = 5 * time.Second

	// lookTime is the time between two checks whether another process has taken
	// the suspect.
	lookTime = 200 * time.Millisecond

	// zoneTime is how long a suspect runs before other jobs may begin beside it.
	zoneTime = 5 * time.Second
)

// isolation runs suspects, one at a time in this process.
type isolation struct {
	env      *env.Env
	capsules []*capsule
	quieting *atomic.Bool
	running  atomic.Bool // suspects run, or are about to
	since    time.Time   // no job has begun since but for suspects; zero: jobs begin. Of run
}

// begin starts the run of suspects that wait, if any do. It is called once in a round
// of the rescuer: fetching asks nothing.
func (o *isolation) begin(ctx context.Context) {
	if o.quieting.Load() || o.running.Load() {
		return
	}
	for _, c := range o.capsules {
		if c.suspectsWait(ctx) {
			o.running.Store(true) // there is one rescuer, with one round at a time
			o.env.System.Spawn(rescuerPart, o.run)
			return
		}
	}
}

func (c *capsule) suspectsWait(ctx context.Context) bool {
	f, ok := c.fetcher.(fetch.Isolator)
	if !ok {
		return false
	}
	ctx, cancel := env.Within(ctx)
	defer cancel()
	waiting, err := f.Suspects(ctx)
	if err != nil && ctx.Err() == nil {
		c.env.Outage.Failed(rescuerPart, err)
	}
	return err == nil && waiting
}

// run runs suspects until there are no more. What it finds on the way down is in the
// capsules and in Redis: the next round goes on where this one broke off.
func (o *isolation) run() {
	defer o.running.Store(false)
	defer o.exclude(nil, false)
	for again := true; again; {
		again = false
		for _, c := range o.capsules {
			for !o.quieting.Load() && c.suspectsWait(o.env.Settling) && o.runOne(c) {
				again = true
			}
		}
	}
}

// exclude keeps all capsules but one from fetching jobs, or ends that.
func (o *isolation) exclude(but *capsule, on bool) {
	if !on {
		o.since = time.Time{}
	} else if o.since.IsZero() {
		o.since = time.Now()
	}
	for _, c := range o.capsules {
		if c != but {
			c.intake.exclude(on)
		}
	}
}

// await waits for cond, at most limit, and no longer than the process fetches jobs.
func (o *isolation) await(limit time.Duration, cond func() bool) bool {
	ctx, cancel := context.WithTimeout(o.env.Settling, limit)
	defer cancel()
	o.env.Changes.Await(ctx, func() bool { return cond() || o.quieting.Load() })
	return cond()
}

// runOne runs one suspect of the queues of c to its end; false when there was none, or
// no place for it.
func (o *isolation) runOne(c *capsule) bool {
	o.exclude(nil, true)
	ready := func() bool { return o.clear() && c.pool.hasRoom() } // slots that start have none yet
	for until := o.since.Add(clearTime); !o.await(lookTime, ready) && time.Now().Before(until); {
		if o.quieting.Load() || !c.suspectsWait(o.env.Settling) {
			return false // an idle process was faster
		}
	}
	if !c.pool.hasRoom() { // long jobs have them all: only this capsule waits on
		o.exclude(c, false)
		// A slot also comes free with an actor that starts, which wakes nobody here.
		for !o.await(lookTime, c.pool.hasRoom) {
			if o.quieting.Load() {
				return false
			}
		}
		o.exclude(nil, true)
	}
	w := c.takeSuspect()
	if w == nil {
		return false
	}
	ended := func() bool { return w.Gone() && !c.pool.runs(w) }
	if !o.await(zoneTime, ended) {
		o.exclude(nil, false)
		o.env.Changes.Await(o.env.Settling, ended)
	}
	own := w.ByItself.Load()
	if own && !w.Again.Load() && ended() {
		o.clearSuspect(c, w)
	}
	return own
}

// clear tells whether this process has nothing in progress.
func (o *isolation) clear() bool {
	for _, c := range o.capsules {
		if c.intake.isTaking() || c.ledger.Size() > 0 {
			return false
		}
	}
	return true
}

// takeSuspect takes a suspect and gives it to a slot.
func (c *capsule) takeSuspect() *work.Item {
	ctx, cancel := c.env.Call()
	defer cancel()
	began := time.Now()
	u, err := c.fetcher.(fetch.Isolator).TakeSuspect(ctx)
	if fenced(err) {
		c.onFenced(err)
		return nil
	}
	if err != nil {
		c.env.Outage.Failed(rescuerPart, err)
		return nil
	}
	if u == nil {
		return nil
	}
	c.traffic.Fetched(time.Since(began), 1, func(int) string { return u.Queue })
	ws := run.Items([]fetch.Unit{*u}, c.system.wire, time.Now())
	ws[0].Suspect = true
	if !c.pool.addOne(ws) {
		c.giveBack(ws)
		return nil
	}
	job := ws[0].Job.Ref()
	c.env.Log.Warn().Str("actor", c.path("fetcher")).Str("jid", words.Text(job.JID)).
		Str("class", words.Text(job.Class)).Str("queue", words.Text(job.Queue)).
		Msg("running a suspect")
	return ws[0]
}

// clearSuspect forgets that the process died under a job that has ended by itself
// since. A crash before this leaves the count to run out.
func (o *isolation) clearSuspect(c *capsule, w *work.Item) {
	ctx, cancel := o.env.Call()
	defer cancel()
	if err := c.system.rescue.Forget(ctx, w.Unit.Queue, w.Unit.Payload); err != nil {
		logs.Err(o.env.Log.Warn().Str("jid", words.Text(w.Job.Ref().JID)), err).Msg("could not forget the recoveries of a job that has ended")
	}
}
