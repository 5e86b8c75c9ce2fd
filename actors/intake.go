package actors

import (
	"context"
	"time"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/internal/osproc"
)

// waitTime is the longest that an idle capsule waits between two looks at its
// queues, whatever woke it or not; a fetcher that has to look more often ends the
// wait sooner.
const waitTime = 5 * time.Minute

// takeLimit is what any fetcher can return from one Take, if there is so much.
const takeLimit = 1000

// intake is the state of the fetch goroutine. All of it is guarded by capsule.mu.
type intake struct {
	fetchBox *supervised.Mailbox // of the fetcher
	fetchUp  bool                // it is started and not stopping
	fetching bool                // the fetch goroutine lives
	opened   bool                // the fetcher is registered
	answered bool                // a Take has succeeded
	fenced   time.Time           // since then, and no Take has succeeded
	calling  bool                // a Take or a Wait is under way
	callDue  time.Time           // that is to be over by then
	taking   bool                // a Take is
	ackDue   bool                // acks have waited long enough
	dry      bool                // the last Take found less than it asked for
	asleep   chan struct{}       // closed to wake the goroutine; nil while it is awake
	endWait  context.CancelFunc  // of the Wait that is under way
	failures int                 // consecutive failed calls
	retryAt  time.Time           // no call before
	ahead    work.LookAhead
}

// fetchLoop is the fetch goroutine: all takes and waits of a capsule are made here, one
// at a time.
func (c *capsule) fetchLoop() {
	defer c.fetchLoopEnded()
	for {
		now := time.Now()
		c.weigh(now)
		c.mu.Lock()
		stale := c.staleAt()
		limit := c.limit(now)
		switch {
		case c.quiet:
			c.mu.Unlock()
			return
		case limit != "":
			c.mu.Unlock()
			c.reach(limit)
		case !stale.IsZero() && !now.Before(stale):
			back := c.inbox
			c.inbox = nil
			c.ahead.Stop(now)
			c.mu.Unlock()
			c.giveBackStale(back)
		case !c.mayFetch():
			c.sleep(stale)
		case now.Before(c.retryAt):
			c.sleep(earlier(stale, c.retryAt))
		case c.ackDue || c.due():
			c.take(now)
		case c.waitDue():
			c.wait(now)
		default:
			c.sleep(stale)
		}
	}
}

// fetchLoopEnded also follows a panic, of a third party's fetcher say: then the fetcher
// crashes of it, and starts the goroutine anew.
func (c *capsule) fetchLoopEnded() {
	v := recover()
	c.mu.Lock()
	c.fetching, c.calling, c.taking, c.dry = false, false, false, false
	if v != nil || !c.quiet { // it may also have left the goroutine
		c.callFailed("fetch")
	}
	c.mu.Unlock()
	if v != nil {
		c.env.System.Panicked(c.path("fetcher"), v)
		time.AfterFunc(time.Second, c.ringFetcher) // if the strategy resumes it
	}
	c.ringFetcher()
	c.env.Outage.Leave(c.path("fetcher"))
	c.env.Changes.Wake()
}

// mayFetch tells whether a call may begin. c.mu is held.
func (c *capsule) mayFetch() bool { return c.fetchUp && !c.held && !c.fetchBox.Keeps() }

// due tells whether a Take is to be made. c.mu is held.
func (c *capsule) due() bool {
	acks := c.settler.Acks()
	switch {
	case c.dry: // an idle capsule has nothing to batch its acks with
		return acks > 0 && c.running == 0
	case len(c.inbox) == 0 && c.running+c.resting < c.workers:
		return true
	case c.ahead.Units > 0 && len(c.inbox) <= c.ahead.Units/2:
		return true
	}
	return acks >= max(len(c.slots), c.ahead.Units)
}

// waitDue tells whether a Wait is to be made: the queues are empty and a worker is free.
// c.mu is held.
func (c *capsule) waitDue() bool { return c.dry && c.running+c.resting+len(c.inbox) < c.workers }

// sleep waits until something has changed, or until then; zero is never. c.mu is held,
// and released.
func (c *capsule) sleep(then time.Time) {
	woken := make(chan struct{})
	c.asleep = woken
	c.mu.Unlock()
	if then.IsZero() {
		<-woken
	} else {
		t := time.NewTimer(time.Until(then))
		select {
		case <-woken:
		case <-t.C:
		}
		t.Stop()
		c.mu.Lock()
		c.asleep = nil
		c.mu.Unlock()
	}
	osproc.AwaitTurn(c.env.Identity, c.path("fetcher"))
}

// wakeFetch wakes the fetch goroutine if it sleeps. c.mu is held.
func (c *capsule) wakeFetch() bool {
	if c.asleep == nil {
		return false
	}
	close(c.asleep)
	c.asleep = nil
	return true
}

// ringFetcher has the fetcher look whether the fetch goroutine lives.
func (c *capsule) ringFetcher() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetchBox.Wake()
}

// take makes one Take. c.mu is held, and released.
func (c *capsule) take(now time.Time) {
	want := c.within(c.ahead.Call(max(0, c.workers-c.running-c.resting+c.ahead.Units-len(c.inbox))))
	c.calling, c.taking, c.ackDue, c.callDue = true, true, false, now
	c.mu.Unlock()
	err := c.open()
	if err == nil {
		err = c.Exchange(want, c.settler.Grab())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taking = false
	if err != nil {
		c.dry = false // what it took, before its reply was lost, waits for a Take and nothing else
	}
	c.called("fetch", err)
}

// wait makes one Wait. c.mu is held, and released.
func (c *capsule) wait(now time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.calling, c.endWait = true, cancel
	d := c.waitLimit()
	c.callDue = now.Add(d)
	c.mu.Unlock()
	err := c.fetcher.Wait(ctx, d)
	if ctx.Err() != nil {
		err = nil
	}
	if err != nil {
		c.env.Outage.Failed(c.path("fetcher"), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endWait, c.dry = nil, false
	c.called("wait", err)
}

// called notes the end of a call. c.mu is held.
func (c *capsule) called(what string, err error) {
	c.calling = false
	if err != nil {
		c.callFailed(what)
		return
	}
	c.failures, c.retryAt = 0, time.Time{}
}

// callFailed puts off the next call. c.mu is held.
func (c *capsule) callFailed(what string) {
	c.retryAt = time.Now().Add(c.env.Backoff(what+" "+c.cfg.Name, c.failures))
	c.failures++
}

// AcksWait is called when acks have waited for ackDelay. It tells whether a Take
// carries them, soon. c.mu is held.
func (c *capsule) AcksWait() bool {
	if c.taking {
		return true
	}
	if c.quiet || c.ackDue || c.calling || !c.mayFetch() || !c.retryAt.IsZero() {
		return false
	}
	c.ackDue = true
	c.wakeFetch()
	return true
}

// staleAt is when the oldest unit in the inbox has waited too long for a worker; zero
// if none waits. c.mu is held.
func (c *capsule) staleAt() time.Time {
	if len(c.inbox) == 0 {
		return time.Time{}
	}
	return c.inbox[0].Fetched.Add(c.ahead.Patience())
}

// giveBackStale gives back what has waited too long for a worker: another process may
// have one free. The next Take waits for that: it would bring what stands behind these
// units in the queue, and they are to run in order.
func (c *capsule) giveBackStale(back []*work.Item) {
	for _, m := range c.takeBack(back) {
		select {
		case <-m.Done:
		case <-m.Refused:
		}
	}
}

// earlier is the earlier of two times, of which a may be zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
