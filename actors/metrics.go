package actors

import (
	"slices"
	"time"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/runs"
)

// Metrics are a daemon's counters since New, and what is so now. Package ops has them for
// Prometheus and OpenTelemetry. No name in it is of a payload.
type Metrics struct {
	Since       time.Time // of the counters
	Phase       string    // starting, running, quiet, stopping or ended
	RedisUp     bool
	RedisRTT    time.Duration // of the last beat; 0 before the first
	RedisOutage time.Duration // how long Redis was away in all
	Fencings    uint64        // times this process was taken for dead
	Rescued     uint64        // jobs of dead processes that this one has put back
	LogDropped  uint64        // lines of the log, see GuardLog
	LogBlocked  time.Duration // how long the log has taken no line; 0 if it does

	// Classes are the first 199 of the registry by name, and a last one for all others.
	Classes []ClassMetrics
	// Queues are the first 99 that became known, in that order, and a last one if there are more.
	Queues   []QueueMetrics
	Capsules []CapsuleMetrics
	Actors   []ActorMetrics
	// Budgets is the part of its restart budget that each supervisor has used, by its path: at
	// 1 the next crash makes it give up. Strategies without a budget are missing.
	Budgets map[string]float64
}

// ClassMetrics are the runs of the jobs of one class, and where jobs were moved that are not
// done. A job whose slot was given away since it is unresponsive counts twice: with its
// failure, and as late when it ends.
type ClassMetrics struct {
	Class string // "" for the others, those without a handler here among them

	// Runs are those that have ended, by outcome: done, error, panic, interrupted, parked, moved, or
	// late if the outcome of the job had been decided before.
	Runs  map[string]uint64
	Times Histogram // of runs without an error, and of the interrupted
	// Moves are jobs by where they went: failed ones that were retried, have died or were
	// dropped; those requeued at the deadline of a stop; those of dead processes that were
	// rerouted, or poisoned.
	Moves map[string]uint64
}

// QueueMetrics are the jobs from one queue.
type QueueMetrics struct {
	Queue   string // "" for the others
	Fetched uint64
	// Waits are the times between enqueued_at and the start of a run, estimated: each that was
	// measured counts for 16.
	Waits Histogram
}

// CapsuleMetrics are the processors and calls of one capsule.
type CapsuleMetrics struct {
	Capsule      string
	Processors   map[State]int
	Waiting      int           // jobs that are fetched and do not run yet, or have ended and are not yet settled
	Unresponsive int           // jobs
	OldestRun    time.Duration // of the job that has run for the longest; 0 if none runs
	Fetch        Histogram     // calls that brought jobs, or none
	Settle       Histogram     // calls that only settled jobs
}

// ActorMetrics are the crashes and restarts of the actors of one role. That a supervisor gives
// up is a crash.
type ActorMetrics struct {
	Role, Capsule     string // Capsule is "" outside of one
	Crashes, Restarts uint64
}

// Histogram has counts of time spans by length.
type Histogram struct {
	Limits []time.Duration // upper bounds of all buckets but the last; not to be modified
	Counts []uint64        // of each bucket alone
	Sum    time.Duration
}

func histogram(h *runs.Histogram) Histogram {
	return Histogram{Limits: runs.Coarse, Counts: h.Coarsened(), Sum: h.Sum}
}

// How many classes and queues the metrics have at most, with the one for all others.
const maxClasses, maxQueues = 200, 100

// named is where class i of the registry is in Metrics.Classes.
func named(i int) int { return min(i, maxClasses-1) }

// Metrics returns the metrics of now. It asks Redis nothing, and looks at each slot and each
// actor.
func (d *Daemon) Metrics() Metrics {
	stats, log := d.Stats(), d.log.State()
	m := Metrics{
		Since: d.made, Phase: d.healthPhase(), RedisUp: !stats.RedisAway, RedisRTT: time.Duration(d.beats.rtt.Load()),
		RedisOutage: d.env.Outage.Total(), Fencings: stats.Fencings, Rescued: stats.Rescued,
		LogDropped: log.Dropped, LogBlocked: log.Blocked,
		Budgets: map[string]float64{},
	}
	classes, totals := d.cfg.Registry.Classes(), d.totals()
	byClass := make([]runs.Totals, named(len(classes))+1)
	byClass[len(byClass)-1] = totals[0]
	for i := range classes {
		byClass[named(i)].Add(&totals[1+2*i])
		byClass[named(i)].Add(&totals[2+2*i])
	}
	for i := range byClass {
		t := &byClass[i]
		c := ClassMetrics{Runs: map[string]uint64{"late": 0}, Times: histogram(&t.Times), Moves: d.events.moves.of(i)}
		if i < len(byClass)-1 {
			c.Class = classes[i]
		}
		for o := range job.Ends {
			c.Runs[o.Name()] = t.Ended[o]
			c.Runs["late"] += t.Late[o]
		}
		m.Classes = append(m.Classes, c)
	}
	rows := d.env.System.Snapshot(time.Now())
	for _, r := range rows {
		i := slices.IndexFunc(m.Actors, func(a ActorMetrics) bool { return a.Role == r.Role && a.Capsule == r.Capsule })
		if i < 0 {
			i, m.Actors = len(m.Actors), append(m.Actors, ActorMetrics{Role: r.Role, Capsule: r.Capsule})
		}
		m.Actors[i].Crashes += uint64(r.Failures)
		m.Actors[i].Restarts += uint64(r.Restarts)
	}
	tree, waits := d.tree(rows), []runs.Queue(nil)
	for _, n := range tree {
		if n.Budget != nil {
			m.Budgets[n.Path] = float64(n.Budget.Used) / float64(n.Budget.Most)
		}
	}
	for _, c := range d.capsules {
		m.Capsules = append(m.Capsules, c.metrics(tree, &waits))
	}
	for _, q := range waits {
		m.Queues = append(m.Queues, QueueMetrics{Queue: q.Name, Fetched: q.Fetched, Waits: histogram(&q.Waits)})
	}
	return m
}

// metrics are those of the capsule; its queues are added to all.
func (c *capsule) metrics(tree Tree, all *[]runs.Queue) CapsuleMetrics {
	busy := int(c.pool.busy.Load())
	m := CapsuleMetrics{
		Capsule: c.cfg.Name, Processors: map[State]int{},
		Waiting: max(0, c.ledger.Size()-busy), Unresponsive: c.runs.CountUnresponsive(),
	}
	for _, n := range tree {
		if n.Role == "processor" && n.Capsule == c.cfg.Name {
			m.Processors[n.State]++
		}
	}
	now := time.Now()
	_, running := c.runs.Unresponsive() // those that have no slot
	for _, w := range c.pool.working() {
		running = append(running, w)
	}
	for _, w := range running {
		if ref := w.Job.Ref(); !ref.Started.IsZero() {
			m.OldestRun = max(m.OldestRun, now.Sub(ref.Started))
		}
	}
	queues, fetch, settle := c.traffic.Read()
	m.Fetch, m.Settle = histogram(&fetch), histogram(&settle)
	for _, q := range queues {
		same := func(o runs.Queue) bool { return o.Name == q.Name }
		i := slices.IndexFunc(*all, same)
		if i < 0 && len(*all) >= maxQueues-1 {
			q.Name = ""
			i = slices.IndexFunc(*all, same)
		}
		if i < 0 {
			*all = append(*all, q)
			continue
		}
		(*all)[i].Fetched += q.Fetched
		(*all)[i].Waits.Add(&q.Waits)
	}
	return m
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
