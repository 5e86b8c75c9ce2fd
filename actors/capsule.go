package actors

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/runs"
)

// capsule is what a manager, its fetcher and its processors work on. It outlives
// every incarnation of them, so an actor may crash at any instant and the next one
// goes on from what is here. Its lock is never held across I/O or user code.
//
// Jobs go from the fetch goroutine (intake.go) through the inbox to the worker
// goroutines (worker.go), and from there through the settler to Redis.
type capsule struct {
	env     *env.Env
	cfg     Capsule // Concurrency and Queues are guarded by mu: they may change
	fetcher fetch.Fetcher
	ledger  work.Ledger
	settler *work.Settler
	runs    *run.Env
	traffic runs.Traffic
	system  *system
	events  *events
	drain   *drain
	up      func() // called at the first start of the manager
	onLimit func(limit string)

	announce sync.Once
	maxAge   time.Duration // of a job in the inbox that is started; see newCapsule

	requeuing chan struct{} // has room while nobody changes the queues

	mu      sync.Mutex
	slots   []*slot
	workers int       // those that have a slot
	running int       // those of them that have a job
	idle    []*worker // those that wait for one, but for those that are being woken
	waking  int
	inbox   []*work.Item  // fetched, waiting for a worker, the oldest first
	quiet   bool          // nothing is fetched any more
	quietBy string        // the actor for whose end, if its strategy has stopped it
	held    bool          // nothing is fetched: a suspect runs, or is about to
	resting int           // workers that pause after a job
	rested  chan struct{} // closed when no pause is made any more
	intake
	limiting

	busy     atomic.Int64  // goroutines that run a job
	refused  atomic.Uint64 // settlements that came too late
	fencings atomic.Uint64
}

func newCapsule(d *Daemon, cfg Capsule) (*capsule, error) {
	s, err := d.systemOf(cfg.Wire)
	if err != nil {
		return nil, err
	}
	classes, err := run.Classes(d.cfg.Registry, append(slices.Clone(d.cfg.Middleware), cfg.Middleware...)...)
	if err != nil {
		return nil, err
	}
	c := &capsule{
		system: s, env: d.env, cfg: cfg, events: d.events, drain: &d.drain, up: d.managerUp, onLimit: d.limitReached, rested: make(chan struct{}), requeuing: make(chan struct{}, 1),
	}
	// A process that was paused longer than its lease may have lost its jobs to a rescuer.
	// The lease is renewed every third of it: it covers what was fetched half a lease ago.
	c.maxAge = d.cfg.Lease / 2
	c.ahead = work.NewLookAhead(cfg.FetchBytes, s.wire.Fetch == nil)
	c.settler = work.NewSettler(c.env, c, &c.mu)
	c.runs = &run.Env{
		Env: d.env, Capsule: cfg.Name, Path: c.Path(), Ledger: &c.ledger, Settler: c.settler,
		Classes: classes,
		Policy:  s.policy, Metrics: d.beats.metrics, Traffic: &c.traffic, Timestamps: d.cfg.Timestamps,
		Grace: d.cfg.Grace, MaxIteration: d.cfg.MaxIterationRuntime, MaxUnresponsive: cfg.MaxUnresponsive, MaxHeldBack: func() int64 { return int64(heldBackFactor * c.config().Concurrency) }, Quiet: c.isQuiet,
		OnError: d.onJobError(), OnDeath: d.tellDeathHandlers, Wanted: &d.events.wanted, Publish: c.publish,
	}
	c.traffic.Expect(cfg.Queues.List().Names()...)
	for i := range cfg.Concurrency {
		c.slots = append(c.slots, c.newSlot(i))
	}
	f, err := cfg.Fetch(fetch.Env{
		Redis: s.redis, OnClient: s.onClient, Identity: d.env.Identity, Capsule: cfg.Name, Queues: cfg.Queues,
		Waiters: cfg.Waiters, Bytes: cfg.FetchBytes, Lease: d.cfg.Lease, Logger: d.env.Log.With().Str("capsule", cfg.Name).Logger(),
		Fenced: c.ledger.Fence, Renewed: c.env.Leases.Renewed,
	})
	if err != nil {
		return nil, err
	}
	c.fetcher = f
	s.capsules = append(s.capsules, c)
	return c, nil
}

func (c *capsule) newSlot(i int) *slot {
	path := c.path("processor-" + strconv.Itoa(i))
	return &slot{index: i, path: path, labels: run.Labels(path), absent: true, runs: runs.NewCounts(1 + 2*len(c.runs.Classes))}
}

// Path is that of the manager.
func (c *capsule) Path() string { return launcherName + "/" + c.cfg.Name }

// heldBackFactor times the concurrency is how many failed jobs may wait without
// a slot for a key that refuses them.
const heldBackFactor = 10

// path is that of a part of the capsule.
func (c *capsule) path(part string) string { return c.Path() + "/" + part }

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
	close(c.rested)
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
func (c *capsule) drained() bool { return c.fetchEnded() && c.ledger.Size() == 0 }

// Settled takes items off the ledger whose outcome is in Redis.
func (c *capsule) Settled(ws ...*work.Item) {
	c.ledger.Settled(ws...)
	c.drain.settled(ws)
	c.env.Changes.Wake()
}

// Settle makes one try to carry out moves.
func (c *capsule) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	began := time.Now()
	results, err := c.fetcher.Settle(ctx, moves)
	if err == nil {
		c.traffic.Settled(time.Since(began))
	}
	switch part := c.path("settle"); {
	case fenced(err):
		c.onFenced(err)
		c.env.Outage.OK(part)
	case err != nil:
		c.env.Outage.Failed(part, err)
	default:
		c.env.Outage.OK(part)
		for _, r := range results {
			if r == fetch.NotMine {
				c.refused.Add(1)
			}
		}
	}
	return results, err
}

// Reached tells whether Redis answers a call without a payload.
func (c *capsule) Reached(ctx context.Context) bool { return c.system.redis.Ping(ctx).Err() == nil }

// takeBack returns units to their queues unless their outcome is decided already.
func (c *capsule) takeBack(ws []*work.Item) []*work.Move {
	var mine []*work.Item
	for _, w := range ws {
		if c.ledger.Take(w) {
			mine = append(mine, w)
		}
	}
	return c.giveBack(mine)
}

// giveBack returns units that were never started to their queues.
func (c *capsule) giveBack(ws []*work.Item) []*work.Move {
	moves := make([]*work.Move, 0, len(ws))
	for _, w := range ws {
		moves = append(moves, work.NewMove(w, fetch.Move{To: fetch.ToQueue}))
	}
	if len(moves) > 0 {
		c.settler.Submit(moves...)
	}
	return moves
}

// fenced tells whether err is a *fetch.FencedError.
func fenced(err error) bool { return errchain.Has[*fetch.FencedError](err) }

// onFenced ends what another process has taken over.
func (c *capsule) onFenced(err error) {
	f, ok := errchain.As[*fetch.FencedError](err)
	if !ok {
		return
	}
	interrupted, late := c.ledger.Fenced(f.Incarnation)
	c.refused.Add(uint64(late))
	c.fencings.Add(1)
	c.mu.Lock()
	c.intake.fenced = time.Now()
	c.mu.Unlock()
	for _, w := range interrupted {
		w.Job.Interrupt(troupe.ErrFenced)
	}
	c.env.Changes.Wake()
	c.events.publish(Fenced{At: time.Now(), Capsule: c.cfg.Name, Jobs: refsOf(interrupted), Refused: late})
	supervised.Tell(func() { // the caller has jobs in its hands that are not fenced
		c.env.Log.Error().Str("actor", c.path("fetcher")).Str("fetcher", f.ID).
			Int("jobs_cancelled", len(interrupted)).Int("settlements_refused", late).
			Msg("fenced: this process was taken for dead and its jobs were put back by another")
	})
}

// working is a snapshot of the running jobs, by processor.
func (c *capsule) working() map[int]*work.Item {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := map[int]*work.Item{}
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
