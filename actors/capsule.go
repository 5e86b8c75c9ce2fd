package actors

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/jitter"
)

// waitTime is the longest that an idle capsule waits between two looks at its
// queues, whatever woke it or not.
const waitTime = 5 * time.Second

// takeLimit is what one Take may return at most without telling that there is
// no more.
const takeLimit = 1000

// capsule is the durable half of a manager, its fetcher and its processors. It
// outlives every incarnation of them: queues of units, slots, ledger and flags
// are here, so that an actor may crash at any instant and the next one derives
// what to do. Its lock is never held across I/O or user code.
type capsule struct {
	d       *Daemon
	cfg     Capsule
	fetcher fetch.Fetcher
	ledger  *ledger
	settler *settler
	classes map[string]*class // handlers with this capsule's middleware around them

	announce sync.Once // the first start of the manager

	mu       sync.Mutex
	manager  *actor.PID
	fetch    *actor.PID
	slots    []*slot
	idle     []int   // indices of free slots, last in first out
	inbox    []*work // fetched, waiting for a slot
	pace     pace
	stale    *time.Timer // looks at what waits in the inbox; nil if nothing does
	opened   bool        // the fetcher is registered
	calling  bool        // a Take is under way
	rung     bool        // the fetcher has been told that a Take is due
	ackDue   bool        // acks have waited long enough
	giving   bool        // units go back to their queues: what comes after them must not be taken before
	waiting  bool        // a Wait is under way
	dry      bool        // the last Take found less than it asked for
	failing  int         // consecutive failed Takes
	deaf     int         // consecutive failed Waits
	retryAt  time.Time
	deafJobs []*deafJob
	stopWait context.CancelFunc
	quiet    bool
	held     bool // nothing is started or fetched: a suspect runs, or is about to

	processed, failed atomic.Uint64 // since the last flush of the heartbeat
	totalProcessed    atomic.Uint64
	totalFailed       atomic.Uint64
	busy              atomic.Int64
	refused           atomic.Uint64 // settlements that came too late
	fencings          atomic.Uint64
	heldBack          atomic.Int64 // failed jobs that wait without a slot for a key that refuses them
}

func newCapsule(d *Daemon, cfg Capsule) (*capsule, error) {
	c := &capsule{d: d, cfg: cfg, ledger: newLedger(), slots: make([]*slot, cfg.Concurrency)}
	c.settler = &settler{c: c}
	for i := range c.slots {
		c.slots[i] = &slot{index: i, labels: c.labels(i)}
	}
	f, err := cfg.Fetch(fetch.Env{
		Redis: d.redis, Identity: d.identity, Capsule: cfg.Name, Queues: cfg.Queues,
		Lease: d.cfg.Lease, Logger: d.log.With().Str("capsule", cfg.Name).Logger(), Held: c.ledger.held,
	})
	if err != nil {
		return nil, err
	}
	c.fetcher = f
	c.buildClasses()
	return c, nil
}

func (c *capsule) path(part string) string { return launcherName + "/" + c.cfg.Name + "/" + part }

func (c *capsule) managerPID() *actor.PID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.manager
}

func (c *capsule) fetcherPID() *actor.PID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fetch
}

// ring rings an actor's doorbell; the actor may be gone.
func (c *capsule) ring(pid *actor.PID) {
	if pid != nil {
		c.d.root().Send(pid, wake{})
	}
}

// dispatch pairs waiting units with idle slots. c.mu is held.
func (c *capsule) dispatch() {
	for !c.held && len(c.inbox) > 0 && len(c.idle) > 0 {
		i := c.idle[len(c.idle)-1]
		s := c.slots[i]
		c.delist(s)
		s.pending = c.pop()
		c.ring(s.pid)
	}
	if len(c.inbox) > 0 && c.stale == nil && !c.quiet {
		c.stale = time.AfterFunc(c.pace.patience(), c.checkInbox)
	}
}

// pop takes the oldest unit off the inbox. c.mu is held.
func (c *capsule) pop() *work {
	w := c.inbox[0]
	c.inbox[0] = nil
	c.inbox = c.inbox[1:]
	return w
}

// checkInbox gives back what has waited too long for a slot: somebody else may
// have one free. No Take is under way meanwhile, before or after: it would bring
// what stands behind these units in the queue, and they are to run in order.
func (c *capsule) checkInbox() {
	c.mu.Lock()
	c.stale = nil
	if c.quiet || len(c.inbox) == 0 {
		c.mu.Unlock()
		return
	}
	now := time.Now()
	left := c.pace.patience() - now.Sub(c.inbox[0].fetched)
	if c.calling {
		left = max(left, holdTime/5)
	}
	if left > 0 {
		c.stale = time.AfterFunc(left, c.checkInbox)
		c.mu.Unlock()
		return
	}
	back := c.inbox
	c.inbox = nil
	c.pace.stop(now)
	c.giving = true
	c.mu.Unlock()
	moves := c.takeBack(back)
	c.d.spawn(c.managerPID(), func() {
		defer func() {
			c.mu.Lock()
			c.giving = false
			c.mu.Unlock()
			c.ring(c.fetcherPID())
		}()
		for _, m := range moves {
			select {
			case <-m.done:
			case <-m.parked: // refused: it waits apart
			}
		}
	})
}

// takeBack returns units to their queues unless their fate is decided elsewhere.
func (c *capsule) takeBack(ws []*work) []*pendingMove {
	var mine []*work
	for _, w := range ws {
		if c.ledger.take(w) {
			mine = append(mine, w)
		}
	}
	return c.giveBack(mine)
}

// room is how many units there is use for: one for each free slot, and the
// look-ahead. c.mu is held.
func (c *capsule) room() int {
	if c.held {
		return 0
	}
	return max(0, len(c.idle)+c.pace.ahead-len(c.inbox))
}

// due tells whether a Take is to be started now, by whoever gets to know first.
// c.mu is held.
func (c *capsule) due() bool {
	if c.quiet || c.held || c.calling || c.giving || c.rung || !c.retryAt.IsZero() {
		return false
	}
	acks := int(c.settler.waitingAcks.Load())
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
	c.calling, c.ackDue = true, false
	want := c.pace.call(c.room())
	c.d.spawn(owner, func() { c.takeCall(owner, want) })
}

// acksWait is called when acks have waited for ackDelay. It tells whether a
// Take carries them, soon: the one that it asks for, or the one after the call
// under way.
func (c *capsule) acksWait() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calling {
		return true
	}
	if c.quiet || c.ackDue || c.giving || c.fetch == nil || !c.retryAt.IsZero() {
		return false
	}
	c.ackDue = true
	c.ring(c.fetch)
	return true
}

func (c *capsule) takeCall(owner *actor.PID, want int) {
	err := errors.New("the fetcher panicked")
	defer func() {
		c.mu.Lock()
		c.calling = false
		if err == nil {
			c.failing, c.retryAt = 0, time.Time{}
		} else if !c.quiet {
			d := c.d.backoff("fetch "+c.cfg.Name, c.failing)
			c.failing++
			c.retryAt = time.Now().Add(d)
			time.AfterFunc(d, func() { c.ring(c.fetcherPID()) })
		}
		quiet := c.quiet
		c.mu.Unlock()
		if err == nil || quiet {
			c.ring(c.fetcherPID())
		}
		if quiet {
			c.d.outage.leave(c.path("fetcher"))
			c.d.ringLauncher()
		}
	}()
	if err = c.open(); err == nil {
		err = c.exchange(want, c.settler.grab())
	}
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
		c.settler.putBack(acks)
		return err
	}
	c.d.outage.ok(c.path("fetcher"))
	c.forget(acks...)
	c.dropIterations(acks)
	c.receive(got, want, took)
	return nil
}

// forget closes the books on settled units.
func (c *capsule) forget(ws ...*work) {
	c.ledger.settled(ws...)
	if c.d.isolating.Load() {
		c.d.changes.ring()
	}
	if len(ws) > 0 && c.d.hushed.Load() {
		c.d.noteFinished(ws)
		c.d.ringLauncher()
	}
}

// receive takes over fetched units: into the ledger first, then to the slots.
// Those that come after quiet began go back to their queue at once.
func (c *capsule) receive(got []fetch.Unit, want int, took time.Duration) {
	now := time.Now()
	ws, all := make([]*work, len(got)), make([]work, len(got))
	size := 0
	for i, u := range got {
		ws[i] = &all[i]
		ws[i].unit, ws[i].fetched = u, now
		size += len(u.Payload)
	}
	c.mu.Lock()
	if want > 0 {
		c.pace.called(took, len(got), size)
	}
	if want > 0 {
		c.dry = len(got) < min(want, takeLimit)
	}
	if !c.quiet && c.ledger.add(ws) {
		c.inbox = append(c.inbox, ws...)
		c.dispatch()
		c.mu.Unlock()
		return
	}
	c.ledger.claim(ws)
	c.mu.Unlock()
	c.giveBack(ws)
}

// giveBack returns units that were never started to their queues.
func (c *capsule) giveBack(ws []*work) []*pendingMove {
	moves := make([]*pendingMove, 0, len(ws))
	for _, w := range ws {
		moves = append(moves, &pendingMove{
			w: w, move: fetch.Move{Unit: w.unit, To: fetch.ToQueue}, done: make(chan struct{}), parked: make(chan struct{}),
		})
	}
	if len(moves) > 0 {
		c.settler.submit(moves...)
	}
	return moves
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
				time.AfterFunc(d, func() { c.ring(c.fetcherPID()) })
			}
			quiet := c.quiet
			c.mu.Unlock()
			if err == nil || quiet {
				c.ring(c.fetcherPID())
			}
			if quiet {
				c.d.outage.leave(c.path("fetcher"))
				c.d.ringLauncher()
			}
		}()
		if err = c.fetcher.Wait(ctx, waitTime); err != nil && ctx.Err() == nil {
			c.d.outage.failed(c.path("fetcher"), err)
			return
		}
		err = nil
	})
}

// hush begins quiet: no new work, and what has not started goes back.
func (c *capsule) hush() {
	c.mu.Lock()
	if c.quiet {
		c.mu.Unlock()
		return
	}
	c.quiet = true
	back := c.inbox
	c.inbox = nil
	for _, s := range c.slots {
		if s.pending != nil {
			back = append(back, s.pending)
			s.pending = nil
		}
		s.idle = false
	}
	c.idle = nil
	if c.stopWait != nil {
		c.stopWait()
	}
	c.mu.Unlock()
	c.d.outage.leave(c.path("fetcher"))
	slices.SortFunc(back, func(a, b *work) int { return cmp.Compare(a.order, b.order) })
	c.takeBack(back)
}

// fetchEnded tells whether nothing can come in any more.
func (c *capsule) fetchEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quiet && !c.calling && !c.waiting
}

// drained tells whether the capsule is quiet and every unit is settled.
func (c *capsule) drained() bool {
	if !c.fetchEnded() {
		return false
	}
	return c.ledger.size() == 0
}

// onFenced ends what another process has taken over.
func (c *capsule) onFenced(err error) {
	var f *fetch.FencedError
	if !errors.As(err, &f) {
		return
	}
	interrupted, late := c.ledger.fenced(f.Incarnation)
	c.refused.Add(uint64(late))
	c.fencings.Add(1)
	c.mu.Lock()
	kept := c.inbox[:0]
	for _, w := range c.inbox {
		if c.ledger.isOpen(w) {
			kept = append(kept, w)
		}
	}
	c.inbox = kept
	c.mu.Unlock()
	var jobs []JobRef
	for _, w := range interrupted {
		w.interrupt(troupe.ErrFenced)
		jobs = append(jobs, w.ref())
	}
	if c.d.events.wanted.Load() {
		c.d.events.publish(Fenced{At: time.Now(), Capsule: c.cfg.Name, Jobs: jobs, Refused: late})
	}
	c.d.log.Error().Str("actor", c.path("fetcher")).Str("fetcher", f.ID).
		Int("jobs_cancelled", len(interrupted)).Int("settlements_refused", late).
		Msg("fenced: this process was taken for dead and its jobs were put back by another")
}

// working is a snapshot of the running jobs.
func (c *capsule) working() map[int]*work {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := map[int]*work{}
	for _, s := range c.slots {
		if s.running != nil {
			m[s.index] = s.running
		}
	}
	return m
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
