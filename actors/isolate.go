package actors

import (
	"context"
	"time"

	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/cut"
	"github.com/troupehq/troupe/internal/joblog"
)

const (
	// clearTime is how long a suspect waits for running jobs to end, so that it
	// begins alone.
	clearTime = 5 * time.Second

	// lookTime is the pace at which it is looked whether another process has taken
	// the suspect meanwhile.
	lookTime = 200 * time.Millisecond

	// zoneTime is how long no other job begins beside a suspect.
	zoneTime = 5 * time.Second
)

// lookForSuspects starts the run of those that wait, if any do. One look per
// round of the rescuer: fetching asks nothing.
func (d *Daemon) lookForSuspects(ctx context.Context) {
	if d.quieting.Load() || d.isolating.Load() {
		return
	}
	for _, c := range d.capsules {
		if c.suspectsWait(ctx) {
			d.isolating.Store(true) // there is one rescuer, with one look at a time
			d.env.System.Spawn(rescuerPart, d.runSuspects)
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

// runSuspects runs suspects, one at a time in this process, until there are no
// more. What it finds on the way down is in the capsules and in Redis: the next
// look goes on where it broke off.
func (d *Daemon) runSuspects() {
	defer d.isolating.Store(false)
	defer d.hold(false)
	for again := true; again; {
		again = false
		for _, c := range d.capsules {
			for !d.quieting.Load() && c.suspectsWait(d.env.Settling) && c.runSuspect() {
				again = true
			}
		}
	}
}

// hold keeps all capsules from starting and fetching jobs, or ends that.
func (d *Daemon) hold(held bool) {
	for _, c := range d.capsules {
		c.hold(held)
	}
}

func (c *capsule) hold(held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
	c.wakeFetch()
}

// awaitFetching waits for cond, at most limit, and no longer than the process
// fetches jobs.
func (d *Daemon) awaitFetching(limit time.Duration, cond func() bool) bool {
	ctx, cancel := context.WithTimeout(d.env.Settling, limit)
	defer cancel()
	d.env.Changes.Await(ctx, func() bool { return cond() || d.quieting.Load() })
	return cond()
}

// runSuspect runs one suspect of the capsule's queues to its end; false when
// there was none, or no place for it.
func (c *capsule) runSuspect() bool {
	d := c.d
	d.hold(true)
	for until := time.Now().Add(clearTime); !d.awaitFetching(lookTime, d.clear) && time.Now().Before(until); {
		if d.quieting.Load() || !c.suspectsWait(d.env.Settling) {
			return false // an idle process was faster
		}
	}
	if !c.hasSlot() { // long jobs have them all: only this capsule waits on
		for _, other := range d.capsules {
			if other != c {
				other.hold(false)
			}
		}
		// A slot also comes free with an actor that starts, which rings nobody here.
		for !d.awaitFetching(lookTime, c.hasSlot) {
			if d.quieting.Load() {
				return false
			}
		}
		d.hold(true)
	}
	w := c.takeSuspect()
	if w == nil {
		return false
	}
	ended := func() bool { return w.state.Load() == gone && !c.runs(w) }
	if !d.awaitFetching(zoneTime, ended) {
		d.hold(false)
		for d.env.Settling.Err() == nil && !ended() { // a fence, too, rings nobody
			look, cancel := context.WithTimeout(d.env.Settling, time.Second)
			d.env.Changes.Await(look, ended)
			cancel()
		}
	}
	own := w.byItself.Load()
	if own && !w.again.Load() && ended() {
		c.clearSuspect(w)
	}
	return own
}

// clear tells whether this process has nothing in progress.
func (d *Daemon) clear() bool {
	for _, c := range d.capsules {
		c.mu.Lock()
		busy := c.taking
		c.mu.Unlock()
		if busy || c.ledger.size() > 0 {
			return false
		}
	}
	return true
}

func (c *capsule) hasSlot() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running+len(c.inbox) < c.workers
}

// runs tells whether w occupies a worker.
func (c *capsule) runs(w *work) bool {
	for _, running := range c.working() {
		if running == w {
			return true
		}
	}
	return false
}

// takeSuspect takes a suspect and gives it to a slot.
func (c *capsule) takeSuspect() *work {
	ctx, cancel := c.env.Call()
	defer cancel()
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
	w := &work{unit: *u, fetched: time.Now()}
	c.mu.Lock()
	if c.quiet || c.running+len(c.inbox) >= c.workers || !c.ledger.add([]*work{w}) {
		c.ledger.claim([]*work{w})
		c.mu.Unlock()
		c.giveBack([]*work{w})
		return nil
	}
	c.inbox = append(c.inbox, w)
	c.wakeNext()
	c.mu.Unlock()
	ref := w.ref()
	c.env.Log.Warn().Str("actor", c.path("fetcher")).Str("jid", cut.Text(ref.JID)).
		Str("class", cut.Text(ref.Class)).Str("queue", cut.Text(ref.Queue)).
		Msg("running a suspect")
	return w
}

// clearSuspect forgets that the process died under a job that has ended by itself
// since. A crash before this leaves the count to run out.
func (c *capsule) clearSuspect(w *work) {
	ctx, cancel := c.env.Call()
	defer cancel()
	if err := c.d.rescue.Forget(ctx, w.unit); err != nil {
		joblog.Err(c.env.Log.Warn().Str("jid", cut.Text(w.ref().JID)), err).Msg("could not forget the recoveries of a job that has ended")
	}
}
