package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/wire"
)

// capsule is what a manager, its fetcher and its processors work on. It outlives
// every incarnation of them, so an actor may crash at any instant and the next one
// goes on from what is here. Its intake (intake.go) fetches jobs, its pool (pool.go)
// runs them, and the settler brings what becomes of them to Redis (settle.go).
//
// One lock guards both parts: a job that ends changes both. It is never held across I/O or
// user code, and functions whose names end in Locked are called with it held.
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
	define  func(ctx context.Context) error // tells Redis what the limits of jobs allow

	announce sync.Once
	maxAge   time.Duration // of a job in the inbox that is started; see newCapsule

	requeuing chan struct{} // has room while nobody changes the queues

	mu      sync.Mutex
	intake  intake
	pool    pool
	quiet   bool   // nothing is fetched any more, and of what was fetched nothing is begun
	quietBy string // the actor for whose end, if its strategy has stopped it

	refused  atomic.Uint64 // settlements that came too late
	fencings atomic.Uint64
}

func newCapsule(d *Daemon, cfg Capsule) (*capsule, error) {
	s, err := d.systemOf(cfg.Wire)
	if err != nil {
		return nil, err
	}
	retryIn := d.cfg.RetryIn
	if s.wire.Rules != nil { // those of another system
		retryIn = nil
	}
	classes, err := run.Classes(d.cfg.Registry, cfg.Unknown.Queue, retryIn, append(slices.Clone(d.cfg.Middleware), cfg.Middleware...)...)
	if err != nil {
		return nil, err
	}
	c := &capsule{
		system: s, env: d.env, cfg: cfg, events: d.events, drain: &d.drain, up: d.managerUp, onLimit: d.limitReached, requeuing: make(chan struct{}, 1),
	}
	// A process that was paused longer than its lease may have lost its jobs to a rescuer.
	// The lease is renewed every third of it: it covers what was fetched half a lease ago.
	c.maxAge = d.cfg.Lease / 2
	c.intake = intake{c: c, ahead: work.NewLookAhead(cfg.FetchBytes, s.wire.Fetch == nil, len(d.limits) > 0)}
	c.pool = pool{c: c, rested: make(chan struct{}), collecting: collecting{map[*run.Class]*run.Call{}, nil, map[*worker]*run.Class{}, map[*run.Class]int{}}}
	c.settler = work.NewSettler(c.env, c)
	crypt, err := job.NewCrypt(d.cfg.Encryption)
	if err != nil {
		return nil, err
	}
	c.runs = &run.Env{
		Env: d.env, Capsule: cfg.Name, Path: c.Path(), Ledger: &c.ledger, Settler: c.settler,
		Classes: classes, Client: d.cfg.Client, Unknown: cfg.Unknown.Queue, Leave: cfg.Unknown.Leave,
		Policy: s.policy, Metrics: d.beats.metrics, Traffic: &c.traffic, Crypt: crypt, Timestamps: d.cfg.Timestamps, DoneLevel: d.cfg.DoneLevel,
		Grace: d.cfg.Grace, MaxIteration: d.cfg.MaxIterationRuntime, MaxUnresponsive: cfg.MaxUnresponsive, MaxHeldBack: func() int64 { return int64(heldBackFactor * c.config().Concurrency) }, Quiet: c.isQuiet,
		OnError: d.onJobError(), OnDeath: d.tellDeathHandlers, Wanted: &d.events.wanted, Publish: c.events.publish,
		Limited: len(d.limits) > 0, QueueLimits: d.cfg.QueueLimits, SlotLife: slotLife(&d.cfg), MaxAge: c.maxAge, OnHeld: d.events.holds.Note, OnProgress: d.progress.tell,
		Cancelled: (&cancelledBatches{rdb: s.redis}).has,
	}
	c.traffic.Expect(cfg.Queues.List().Names()...)
	c.mu.Lock()
	c.pool.resizeLocked(cfg.Concurrency)
	c.mu.Unlock()
	f, err := cfg.Fetch(fetch.Env{
		Redis: s.redis, OnClient: s.onClient, Identity: d.env.Identity, Capsule: cfg.Name, Queues: cfg.Queues,
		Waiters: cfg.Waiters, Bytes: cfg.FetchBytes, Lease: d.cfg.Lease, Logger: d.env.Log.With().Str("capsule", cfg.Name).Logger(),
		Fenced: c.ledger.Fence, Renewed: c.env.Leases.Renewed,
	})
	if err != nil {
		return nil, err
	}
	c.fetcher, c.runs.Reaches, c.runs.Cluster = f, reaches(cfg.Wire, f), redisconn.OnCluster(s.redis)
	if err := canLimit(c, d.limits); err != nil {
		return nil, err
	}
	if err := canKeepEnds(c, d.cfg.Registry); err != nil {
		return nil, err
	}
	c.define = func(ctx context.Context) error {
		return d.alone(ctx, func() error { return s.defineLimits(ctx, d.jobLimits(), job.DefineStart) })
	}
	s.capsules = append(s.capsules, c)
	return c, nil
}

// reaches tells whether the effects of a job may be on a key.
func reaches(w *wire.Wire, f fetch.Fetcher) func(queue, key string) error {
	no := ""
	e, ok := f.(fetch.Effector)
	switch {
	case w != nil:
		no = "jobs of " + w.Name + " push nothing with their ack"
	case !ok:
		no = fmt.Sprintf("the fetcher of this capsule (%T) pushes nothing with an ack", f)
	default:
		return e.Reaches
	}
	return func(string, string) error { return errors.New(no) }
}

// canKeepEnds tells why a capsule cannot keep the ends of jobs of a class that has ResultFor; nil if it can.
func canKeepEnds(c *capsule, registry *troupe.Registry) error {
	queues := c.cfg.Queues.List().Names()
	if registry == nil || len(queues) == 0 {
		return nil
	}
	for _, class := range registry.Classes() {
		entry, _ := registry.Lookup(class)
		if entry.Options.ResultFor == 0 {
			continue
		}
		if err := c.runs.Reaches(queues[0], keys.Result("")); err != nil {
			return fmt.Errorf("config: capsule %q cannot keep results: %w; expected no ResultFor of class %q", c.cfg.Name, err, class)
		}
	}
	return nil
}

// Path is that of the manager.
func (c *capsule) Path() string { return launcherName + "/" + c.cfg.Name }

// heldBackFactor bounds the failed jobs that wait without a slot because a key refuses
// them: as many as this factor times the concurrency.
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
	unbegun := c.pool.closeLocked()
	c.intake.changedLocked()
	c.mu.Unlock()
	c.env.Outage.Leave(c.path("fetcher"))
	c.takeBack(unbegun)
}

// fetchEnded tells whether nothing can come in any more.
func (c *capsule) fetchEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quiet && !c.intake.calling
}

// drained tells whether the capsule is quiet and every unit is settled.
func (c *capsule) drained() bool { return c.fetchEnded() && c.ledger.Size() == 0 }

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
