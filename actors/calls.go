package actors

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/jitter"
)

// waitTime is the longest that an idle capsule waits between two looks at its
// queues, whatever woke it or not; a fetcher that has to look more often ends the
// wait sooner.
const waitTime = 5 * time.Minute

// takeLimit is what any fetcher can return from one Take, if there is so much.
const takeLimit = 1000

// due tells whether a Take is to be started now, by whoever gets to know first.
// c.mu is held.
func (c *capsule) due() bool {
	if c.quiet || c.held || c.calling || c.giving || c.rung || !c.retryAt.IsZero() {
		return false
	}
	acks := len(c.settler.acks)
	switch {
	case c.dry: // an idle capsule has nothing to batch its acks with
		return acks > 0 && len(c.idle) == len(c.slots)
	case len(c.idle) > 0 && len(c.inbox) == 0:
		return true
	case c.pace.ahead > 0 && len(c.inbox) <= c.pace.ahead/2:
		return true
	}
	return acks >= max(len(c.slots), c.pace.ahead)
}

// callable tells whether a Take is due and may begin without the fetcher, which is
// there to own it. c.mu is held.
func (c *capsule) callable() bool { return c.fetchUp && !c.fetchBox.keeps() && c.due() }

// unheard tells whether nobody would notice a push: a slot is free, the last
// Take left the queues dry, and no Wait was begun, since no slot was free then.
// A job that ends with an ack has the ack's delivery wake the fetcher; one that
// is retried, parked or dead has not. c.mu is held.
func (c *capsule) unheard() bool {
	return c.dry && len(c.idle) > 0 && !c.waiting && !c.calling && !c.rung && !c.quiet && c.retryAt.IsZero()
}

// pump starts the call that the state asks for: a Take when one is due, a Wait
// when the queues are known to be dry. owner is the fetcher.
func (c *capsule) pump(owner *actor.PID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rung = false
	if c.quiet || c.calling || c.giving {
		return
	}
	if !c.retryAt.IsZero() && time.Now().Before(c.retryAt) {
		return // the timer that was set with retryAt rings
	}
	c.retryAt = time.Time{}
	if c.dry && len(c.idle) > 0 {
		c.startWait(owner)
	}
	if !c.due() && !c.ackDue {
		return
	}
	want := c.beginCall()
	c.d.spawn(owner, func() { c.takeCall(want) })
}

// acksWait is called when acks have waited for ackDelay. It tells whether a
// Take carries them, soon: the one that it asks for, or the one after the call
// under way. c.mu is held.
func (c *capsule) acksWait() bool {
	if c.calling {
		return true
	}
	if c.quiet || c.ackDue || c.giving || !c.fetchUp || !c.retryAt.IsZero() {
		return false
	}
	c.ackDue = true
	c.fetchBox.ring()
	return true
}

// takeCall makes the Take that was begun, and those that are due at once at the end
// of the one before.
func (c *capsule) takeCall(want int) {
	for due := true; due; {
		want, due = c.takeOnce(want)
	}
}

// takeOnce makes one. It tells whether the next is due, which then is begun, for so
// many units; else the fetcher is told.
func (c *capsule) takeOnce(want int) (more int, due bool) {
	err := errors.New("the fetcher panicked")
	defer func() {
		c.mu.Lock()
		c.calling = false
		if err == nil {
			c.failing, c.retryAt = 0, time.Time{}
		} else if !c.quiet {
			d := c.d.backoff("fetch "+c.cfg.Name, c.failing)
			c.failing++
			c.dry = false // what it took, before its reply was lost, waits for a Take and nothing else
			c.retryAt = time.Now().Add(d)
			time.AfterFunc(d, c.ringFetcher)
		}
		quiet := c.quiet
		stale := len(c.inbox) > 0 && time.Since(c.inbox[0].fetched) >= c.pace.patience()
		if due = err == nil && !stale && c.callable(); due {
			more = c.beginCall()
		}
		c.mu.Unlock()
		if stale { // they have waited for the end of this call
			c.checkInbox()
		}
		if !due && (err == nil || quiet) {
			c.ringFetcher()
		}
		if quiet {
			c.d.outage.leave(c.path("fetcher"))
			c.d.ringLauncher()
		}
	}()
	if c.isQuiet() { // meanwhile: what it took would be given back behind what stood before it
		want = 0
	}
	if e := c.open(); e != nil {
		err = e
	} else {
		err = c.exchange(want, c.settler.grab())
	}
	return 0, false
}

// open registers the fetcher once.
func (c *capsule) open() error {
	c.mu.Lock()
	opened := c.opened
	c.mu.Unlock()
	if opened {
		return nil
	}
	ctx, cancel := c.d.redisContext()
	defer cancel()
	if err := c.fetcher.Open(ctx); err != nil {
		c.d.outage.failed(c.path("fetcher"), err)
		return err
	}
	c.d.outage.ok(c.path("fetcher"))
	c.mu.Lock()
	c.opened = true
	c.mu.Unlock()
	return nil
}

// exchange is one call: it carries acks and takes up to want units.
func (c *capsule) exchange(want int, acks []*work) error {
	units := make([]fetch.Unit, len(acks))
	for i, w := range acks {
		units[i] = w.unit
	}
	ctx, cancel := c.d.redisContext()
	defer cancel()
	returned := false
	defer func() {
		if !returned { // a third party's fetcher panicked
			c.settler.putBack(acks)
		}
	}()
	began := time.Now()
	got, err := c.fetcher.Take(ctx, want, units)
	took := time.Since(began)
	returned = true
	if fenced(err) {
		c.onFenced(err) // the acks were refused with it
		c.d.outage.ok(c.path("fetcher"))
		return nil
	}
	if err != nil {
		c.d.outage.failed(c.path("fetcher"), err)
		c.mu.Lock()
		c.pace.failed(want)
		c.mu.Unlock()
		c.settler.putBack(acks)
		return err
	}
	acks = c.ledger.ours(acks) // those of a fenced incarnation had no effect
	c.forget(acks...)
	c.dropIterations(acks)
	c.receive(got, want, took)
	c.d.outage.ok(c.path("fetcher")) // it may log, by what others wrote
	if len(got) > 0 && len(got) < want {
		runtime.Gosched() // the slots first: there is no hurry to fetch again
	}
	return nil
}

// startWait waits for work in the background. c.mu is held.
func (c *capsule) startWait(owner *actor.PID) {
	if c.waiting {
		return
	}
	c.waiting = true
	ctx, cancel := context.WithCancel(context.Background())
	c.stopWait = cancel
	c.d.spawn(owner, func() {
		defer cancel()
		if want, due := c.waitCall(ctx); due {
			c.takeCall(want)
		}
	})
}

// waitCall is one Wait. Where a Take is due after it, that is begun, for so many
// units: the caller makes it, on its own goroutine, since a job may be waiting
// for every step in between. Else the fetcher is told.
func (c *capsule) waitCall(ctx context.Context) (want int, due bool) {
	err := errors.New("the fetcher panicked")
	defer func() {
		c.mu.Lock()
		c.waiting, c.dry = false, false
		if err == nil {
			c.deaf = 0
		} else if !c.quiet {
			d := c.d.backoff("wait "+c.cfg.Name, c.deaf)
			c.deaf++
			c.retryAt = time.Now().Add(d)
			time.AfterFunc(d, c.ringFetcher)
		}
		quiet := c.quiet
		if due = err == nil && c.callable(); due {
			want = c.beginCall()
		}
		c.mu.Unlock()
		if !due && (err == nil || quiet) {
			c.ringFetcher()
		}
		if quiet {
			c.d.outage.leave(c.path("fetcher"))
			c.d.ringLauncher()
		}
	}()
	if err = c.fetcher.Wait(ctx, waitTime); err != nil && ctx.Err() == nil {
		c.d.outage.failed(c.path("fetcher"), err)
		return 0, false
	}
	err = nil
	return 0, false
}

// beginCall notes that a Take is under way; it returns how many units to ask
// for. c.mu is held.
func (c *capsule) beginCall() int {
	c.calling, c.ackDue = true, false
	return c.pace.call(c.room())
}

// backoff between two tries of a fetch: 1 s as in Sidekiq after the first, with
// half of it random so that a fleet does not come back in step; the very first
// is short, since most errors are one broken connection.
func (d *Daemon) backoff(what string, try int) time.Duration {
	wait := time.Second
	if try == 0 {
		wait = 50 * time.Millisecond
	}
	return jitter.Half(wait, d.identity, what)
}
