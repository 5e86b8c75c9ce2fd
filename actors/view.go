package actors

import (
	"maps"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/actors/internal/show"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/internal/tree"
)

// What a daemon shows of itself.
type (
	// Health tells how a daemon is: its Phase ("starting", "running", "quiet", "stopping" or
	// "ended"), the answers to Started, Live and Ready, and how many jobs run. It is a snapshot; nobody changes it.
	//
	//	// Phase is "starting", "running", "quiet", "stopping" or "ended".
	//	Phase string
	//	// Started: the process is registered in Redis, and each fetcher has had an answer. What
	//	// has been started stays so.
	//	Started Check
	//	// Live: each actor works, or is due to restart, the log is read, and a stop is not overdue. If not, and it has
	//	// been so for a minute, or 10 s for a stop, nothing but a new process helps. Redis away, busy
	//	// processors, unresponsive jobs and quiet are no reasons.
	//	Live Check
	//	// Ready: it is started and takes jobs: Redis has not been away, or refused what it is asked for, for
	//	// 5 s or longer, and the daemon is neither quiet nor stopping nor fenced.
	//	Ready Check
	//	Busy, Slots int            // jobs that run, and processors
	//	Running     map[string]int // the jobs, by queue
	Health = show.Health

	// Check is the answer to one question about a daemon: the reasons against it, at most 20. Without any it is yes, and OK.
	//
	//	[]Reason
	//	OK() bool
	Check = show.Check

	// Reason is why a Check has failed: its Code is one of those in docs/deployment.md, such as
	// "actor_down", and its Text names the actor, and since when.
	//
	//	// Code is one of those in docs/deployment.md, such as "actor_down".
	//	Code string
	//	// Text names the actor, and since when.
	//	Text string
	Reason = show.Reason

	// Metrics are a daemon's counters since New, and what is so now. Package ops has them for
	// Prometheus and OpenTelemetry. No name in it is of a payload.
	//
	//	Since       time.Time // of the counters
	//	Phase       string    // starting, running, quiet, stopping or ended
	//	RedisUp     bool
	//	RedisRTT    time.Duration // of the last beat; 0 before the first
	//	RedisOutage time.Duration // how long Redis was away in all
	//	Fencings    uint64        // times this process was taken for dead
	//	Rescued     uint64        // jobs of dead processes that this one has put back
	//	Unkept      uint64        // results of jobs that Redis did not take, mostly since it was out of memory
	//	LogDropped  uint64        // lines of the log, see GuardLog
	//	LogBlocked  time.Duration // how long the log has taken no line; 0 if it does
	//	// Classes are the first 199 of the registry by name, and a last one for all others.
	//	Classes []ClassMetrics
	//	// Queues are the first 99 that became known, in that order, and a last one if there are more.
	//	Queues   []QueueMetrics
	//	Capsules []CapsuleMetrics
	//	Actors   []ActorMetrics
	//	// Periodic are the first 49 of Config.Periodic, in their order, and a last one for all others.
	//	Periodic []PeriodicMetrics
	//	TickLate Histogram // of the ticks for which a job was pushed: how long after they were due
	//	// Limits are the first 49 limits of the configuration by name, and a last one for all others; nil without any.
	//	Limits []LimitMetrics
	//	// Outboxes are those of Config.Outboxes, in their order.
	//	Outboxes []OutboxMetrics
	//	// Budgets is the part of its restart budget that each supervisor has used, by its path: at
	//	// 1 the next crash makes it give up. Strategies without a budget are missing.
	//	Budgets map[string]float64
	Metrics = show.Metrics

	// ClassMetrics are the runs of the jobs of one class, and where jobs were moved that are not
	// done.
	//
	//	Class string // "" for the others, those without a handler here among them
	//	// Runs are those that have ended, by outcome: done, error, panic, interrupted, parked, moved,
	//	// handed (over to another queue), left (in its queue), expired (dropped without a run), or late
	//	// if the outcome of the job had been decided before. An outcome that the class has not had is missing.
	//	Runs     map[string]uint64
	//	Times    Histogram // of runs without an error, and of the interrupted
	//	Progress uint64    // what its runs have told to be done, see troupe.Job.SetProgress; items of iterable jobs
	//	// Moves are jobs by where they went: failed ones that were retried, have died or were
	//	// dropped; those requeued at the deadline of a stop; those of dead processes that were
	//	// rerouted, or poisoned.
	//	Moves map[string]uint64
	ClassMetrics = show.ClassMetrics

	// QueueMetrics are the jobs from one queue.
	//
	//	Queue   string // "" for the others
	//	Fetched uint64
	//	// Waits are the times between enqueued_at and the start of a run, estimated: each that was
	//	// measured counts for 16.
	//	Waits Histogram
	QueueMetrics = show.QueueMetrics

	// CapsuleMetrics are the processors and calls of one capsule.
	//
	//	Capsule      string
	//	Processors   map[State]int
	//	Waiting      int           // jobs that are fetched and do not run yet, or have ended and are not yet settled
	//	Unresponsive int           // jobs
	//	OldestRun    time.Duration // of the job that has run for the longest; 0 if none runs
	//	Fetch        Histogram     // calls that brought jobs, or none
	//	Settle       Histogram     // calls that only settled jobs
	CapsuleMetrics = show.CapsuleMetrics

	// ActorMetrics are the crashes and restarts of the actors of one role.
	//
	//	Role, Capsule     string // Capsule is "" outside of one
	//	Crashes, Restarts uint64
	ActorMetrics = show.ActorMetrics

	// PeriodicMetrics are the ticks of one periodic job that this process has dealt with, as the leader.
	//
	//	Name  string            // "" for those that are not in the configuration
	//	Ticks map[string]uint64 // by what became of them, as in event.PeriodicTicked
	//	// Missed are ticks that nobody has dealt with in time, and for which no job was pushed.
	//	Missed uint64
	PeriodicMetrics = show.PeriodicMetrics

	// LimitMetrics are the jobs of this process that are under one limit of its configuration.
	//
	//	Limit   string // "" for the others
	//	Running int    // jobs
	//	Held    uint64 // times that a job found no room
	LimitMetrics = show.LimitMetrics

	// OutboxMetrics are the relay of one outbox in this process. Waiting, Oldest and Refused are told by the one that works, and 0 elsewhere.
	//
	//	Outbox  string
	//	State   string        // leads, waits, no_database, no_tables or no_redis; "" if it does not run
	//	Pushed  uint64        // jobs
	//	Bad     uint64        // rows that can be no jobs
	//	Waiting int64         // rows
	//	Oldest  time.Duration // age of the oldest of them
	//	Refused int64         // rows in troupe_outbox_bad
	OutboxMetrics = show.OutboxMetrics

	// Histogram has counts of time spans by length.
	//
	//	Limits []time.Duration // upper bounds of all buckets but the last; not to be modified
	//	Counts []uint64        // of each bucket alone
	//	Sum    time.Duration
	Histogram = show.Histogram
)

// Tree is a snapshot of the supervision tree.
func (d *Daemon) Tree() Tree { return d.view().Tree() }

// Health tells how the daemon is, from memory: it waits for nothing but its own locks, and
// may be called at any time.
func (d *Daemon) Health() Health { return d.view().Health() }

// Metrics returns the metrics of now. It asks Redis nothing, and looks at each slot and each
// actor.
func (d *Daemon) Metrics() Metrics {
	m := d.view().Metrics(d.cfg.Registry.Classes(), d.totals(), d.events.moves, d.events.ticks, d.countProgress())
	for _, c := range d.capsules {
		m.Unkept += c.runs.Unkept.Load()
	}
	m.Since, m.RedisRTT, m.Rescued = d.made, time.Duration(d.beats.rtt.Load()), d.rescuedUnits.Load()
	if len(d.jobLimits()) > 0 {
		var running [][]string
		for rules := range d.limitedRuns() {
			running = append(running, rules.IDs)
		}
		m.Limits = d.events.holds.Of(running)
	}
	return m
}

// view is the daemon as package show shows it.
func (d *Daemon) view() *show.View {
	v := &show.View{
		Now: time.Now(), System: d.env.System, Outage: d.env.Outage, Log: d.log.State(), Heart: heart, BeatEvery: d.cfg.HeartbeatInterval,
	}
	v.Outboxes = d.shownOutboxes()
	for _, c := range d.capsules {
		v.Capsules = append(v.Capsules, c.view())
		v.Fencings += c.fencings.Load()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v.Phase = d.shownPhaseLocked()
	v.Running, v.Registered, v.Since, v.BeatAt, v.Err = d.running, d.registered, d.info.StartedAt, d.beatAt, d.fatal
	v.StopEnd = d.until.Add(requeueTime + d.cfg.Grace + endTime)
	return v
}

// shownPhaseLocked is the phase as it is shown. What ends is stopping until it has ended.
func (d *Daemon) shownPhaseLocked() string {
	select {
	case <-d.ended:
		return "ended"
	default:
	}
	switch {
	case !d.running:
		return "starting"
	case d.state >= phaseStopping:
		return "stopping"
	case d.quieting.Load():
		return "quiet"
	}
	return "running"
}

func (c *capsule) view() show.Capsule {
	v := show.Capsule{
		Name: c.cfg.Name, Path: c.Path(), Busy: int(c.pool.busy.Load()),
		Starting: map[string]bool{}, Spare: map[string]bool{}, Working: map[string]tree.JobRef{}, Unsettled: map[string]int{},
		UnresponsiveCount: c.runs.CountUnresponsive(),
	}
	c.mu.Lock()
	v.Concurrency, v.Quiet, v.QuietBy = c.cfg.Concurrency, c.quiet, c.quietBy
	v.Silent, v.FencedSince = !c.intake.answered && !c.quiet, c.intake.fenced
	if c.intake.calling {
		v.CallDue = c.intake.callDue
	}
	for _, s := range c.pool.slots {
		if !s.attached && s.crash == nil && !s.retired && !c.quiet {
			v.Starting[s.path] = true
		}
		if s.retired && s.worker == nil {
			v.Spare[s.path] = true
		}
	}
	c.mu.Unlock()
	for s, w := range c.pool.working() {
		v.Working[s.path] = w.Job.Ref()
	}
	for _, w := range c.ledger.All() {
		v.Unsettled[w.Unit.Queue]++
	}
	unresponsive, replaced := c.runs.Unresponsive()
	v.Unresponsive, v.Replaced = unresponsive, refsOf(replaced)
	v.Queues, v.Fetch, v.Settle = c.traffic.Read()
	return v
}

// totals are the runs of each class of run.Class.
func (d *Daemon) totals() []runs.Totals {
	sums := make([]runs.Totals, 1+2*len(d.cfg.Registry.Classes()))
	for _, c := range d.capsules {
		for _, s := range c.pool.all() {
			s.runs.AddTo(sums)
		}
	}
	return sums
}

// classTotals are the runs of each class, without those in which it wrapped another one.
func (d *Daemon) classTotals() map[string]runs.Totals {
	byClass, totals := map[string]runs.Totals{}, d.totals()
	for i, class := range d.cfg.Registry.Classes() {
		byClass[class] = totals[1+2*i]
	}
	return byClass
}

// elsewhere are the queues that are at no key of Sidekiq, each with the system that keeps it.
func (d *Daemon) elsewhere() map[string]string {
	all, ours := map[string]string{}, map[string]bool{}
	for _, c := range d.capsules {
		for _, name := range c.config().Queues.List().Names() {
			if key := keys.Queue(name); c.system.wire.Fetch == nil && c.system.key(key) == key {
				ours[name] = true
			} else {
				all[name] = c.system.wire.Name
			}
		}
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return ours[name] })
	return all
}

// Queues is for package ops, which reads how much waits in the queues of the daemon: each has the
// client that sees it and what is in progress of it as package inspect does; nil if its system keeps
// jobs in another way.
func (d *Daemon) Queues() map[string]redis.UniversalClient {
	all := make(map[string]redis.UniversalClient)
	for _, c := range d.capsules {
		for _, name := range c.config().Queues.List().Names() {
			if all[name] = nil; c.system.wire.Fetch == nil {
				all[name] = c.system.redis
			}
		}
	}
	return all
}
