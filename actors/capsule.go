package actors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/fetch"
)

// capsule is what a manager, its fetcher and its processors work on. It outlives
// every incarnation of them, so an actor may crash at any instant and the next one
// goes on from what is here. Its lock is never held across I/O or user code.
//
// Jobs go from the fetch goroutine (intake.go) through the inbox to the worker
// goroutines (worker.go), and from there through the settler to Redis.
type capsule struct {
	d       *Daemon
	env     *env.Env
	cfg     Capsule
	fetcher fetch.Fetcher
	ledger  *ledger
	settler *settler
	classes map[string]*class // handlers with this capsule's middleware around them

	announce sync.Once // the first start of the manager

	mu      sync.Mutex
	slots   []*slot
	workers int       // those that have a slot
	running int       // those of them that have a job
	idle    []*worker // those that wait for one, but for those that are being woken
	waking  int
	inbox   []*work // fetched, waiting for a worker, the oldest first
	quiet   bool    // nothing is fetched any more
	held    bool    // nothing is fetched: a suspect runs, or is about to
	intake
	unresponsive []*unresponsiveJob

	processed, failed atomic.Uint64 // since the last flush of the heartbeat
	totalProcessed    atomic.Uint64
	totalFailed       atomic.Uint64
	busy              atomic.Int64  // goroutines that run a job
	refused           atomic.Uint64 // settlements that came too late
	fencings          atomic.Uint64
	heldBack          atomic.Int64 // failed jobs that wait without a worker for a key that refuses them
}

func newCapsule(d *Daemon, cfg Capsule) (*capsule, error) {
	c := &capsule{
		d: d, env: d.env, cfg: cfg, ledger: newLedger(), slots: make([]*slot, cfg.Concurrency),
	}
	c.ahead = newLookAhead(cfg.FetchBytes)
	c.settler = &settler{c: c, mu: &c.mu}
	for i := range c.slots {
		c.slots[i] = &slot{index: i, labels: c.labels(i)}
	}
	f, err := cfg.Fetch(fetch.Env{
		Redis: d.env.Redis, OnClient: d.cfg.OnClient, Identity: d.env.Identity, Capsule: cfg.Name, Queues: cfg.Queues,
		Waiters: cfg.Waiters, Bytes: cfg.FetchBytes, Lease: d.cfg.Lease, Logger: d.env.Log.With().Str("capsule", cfg.Name).Logger(),
		Fenced: c.ledger.fence,
	})
	if err != nil {
		return nil, err
	}
	c.fetcher = f
	c.buildClasses()
	return c, nil
}

// path is that of an actor of the capsule; "" is the manager.
func (c *capsule) path(part string) string {
	if part == "" {
		return launcherName + "/" + c.cfg.Name
	}
	return launcherName + "/" + c.cfg.Name + "/" + part
}

func (c *capsule) isQuiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quiet
}

// beginQuiet ends the fetching; what no worker has begun goes back.
func (c *capsule) beginQuiet() {
	c.mu.Lock()
	if c.quiet {
		c.mu.Unlock()
		return
	}
	c.quiet = true
	back := c.inbox
	c.inbox = nil
	for _, s := range c.slots {
		if s.worker != nil {
			s.worker.stop()
		}
	}
	if c.endWait != nil {
		c.endWait()
	}
	c.wakeFetch()
	c.mu.Unlock()
	c.env.Outage.Leave(c.path("fetcher"))
	c.takeBack(back)
}

// fetchEnded tells whether nothing can come in any more.
func (c *capsule) fetchEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quiet && !c.calling
}

// drained tells whether the capsule is quiet and every unit is settled.
func (c *capsule) drained() bool { return c.fetchEnded() && c.ledger.size() == 0 }

// settled takes units off the ledger whose outcome is in Redis.
func (c *capsule) settled(ws ...*work) {
	c.ledger.settled(ws...)
	if len(ws) > 0 && c.d.quieting.Load() {
		c.d.noteFinished(ws)
	}
	c.env.Changes.Wake()
}

// takeBack returns units to their queues unless their outcome is decided already.
func (c *capsule) takeBack(ws []*work) []*pendingMove {
	var mine []*work
	for _, w := range ws {
		if c.ledger.take(w) {
			mine = append(mine, w)
		}
	}
	return c.giveBack(mine)
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

// onFenced ends what another process has taken over.
func (c *capsule) onFenced(err error) {
	var f *fetch.FencedError
	if !errors.As(err, &f) {
		return
	}
	interrupted, late := c.ledger.fenced(f.Incarnation)
	c.refused.Add(uint64(late))
	c.fencings.Add(1)
	var jobs []JobRef
	for _, w := range interrupted {
		w.interrupt(troupe.ErrFenced)
		jobs = append(jobs, w.ref())
	}
	if c.d.events.wanted.Load() {
		c.d.events.publish(Fenced{At: time.Now(), Capsule: c.cfg.Name, Jobs: jobs, Refused: late})
	}
	c.env.Log.Error().Str("actor", c.path("fetcher")).Str("fetcher", f.ID).
		Int("jobs_cancelled", len(interrupted)).Int("settlements_refused", late).
		Msg("fenced: this process was taken for dead and its jobs were put back by another")
}

// working is a snapshot of the running jobs, by processor.
func (c *capsule) working() map[int]*work {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := map[int]*work{}
	for _, s := range c.slots {
		if s.worker == nil {
			continue
		}
		if w := s.worker.job; w != nil {
			m[s.index] = w
		}
	}
	return m
}

// renew gives the sign of life of the capsule's fetcher.
func (c *capsule) renew() {
	ctx, cancel := c.env.Call()
	defer cancel()
	part := c.path("lease")
	switch err := c.fetcher.Renew(ctx); {
	case fenced(err):
		c.onFenced(err)
	case err != nil:
		c.env.Outage.Failed(part, err)
	default:
		c.env.Outage.OK(part)
	}
}

// open registers the fetcher once.
func (c *capsule) open() error {
	if c.isOpened() {
		return nil
	}
	ctx, cancel := c.env.Call()
	defer cancel()
	if err := c.fetcher.Open(ctx); err != nil {
		c.env.Outage.Failed(c.path("fetcher"), err)
		return err
	}
	c.env.Outage.OK(c.path("fetcher"))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = true
	return nil
}

func (c *capsule) isOpened() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened
}

// labels are those of the goroutine of a job in profiles, by which its stack is found.
func (c *capsule) labels(i int) context.Context { return slotLabels(c.processorPath(i)) }
