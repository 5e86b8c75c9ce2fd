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
)

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
	fetchBox *mailbox // of fetch
	fetchUp  bool     // it is started and not stopping
	slots    []*slot
	idle     []int   // indices of free slots, last in first out
	abreast  int     // how many slots may be about to begin
	woken    []int   // of slots that were offered a unit and may not have begun it
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
	c := &capsule{d: d, cfg: cfg, ledger: newLedger(), slots: make([]*slot, cfg.Concurrency), abreast: abreast()}
	c.pace = newPace(cfg.FetchBytes)
	c.settler = &settler{c: c, mu: &c.mu}
	for i := range c.slots {
		c.slots[i] = &slot{index: i, labels: c.labels(i)}
	}
	f, err := cfg.Fetch(fetch.Env{
		Redis: d.redis, OnClient: d.cfg.OnClient, Identity: d.identity, Capsule: cfg.Name, Queues: cfg.Queues,
		Waiters: cfg.Waiters, Bytes: cfg.FetchBytes, Lease: d.cfg.Lease, Logger: d.log.With().Str("capsule", cfg.Name).Logger(),
		Fenced: c.ledger.fence,
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

// ringFetcher rings the fetcher's doorbell.
func (c *capsule) ringFetcher() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetchBox.ring()
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
