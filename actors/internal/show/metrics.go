package show

import (
	"maps"
	"slices"
	"time"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/internal/tree"
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
	Unkept      uint64        // results of jobs that Redis did not take, mostly since it was out of memory
	LogDropped  uint64        // lines of the log, see GuardLog
	LogBlocked  time.Duration // how long the log has taken no line; 0 if it does

	// Classes are the first 199 of the registry by name, and a last one for all others.
	Classes []ClassMetrics
	// Queues are the first 99 that became known, in that order, and a last one if there are more.
	Queues   []QueueMetrics
	Capsules []CapsuleMetrics
	Actors   []ActorMetrics
	// Periodic are the first 49 of Config.Periodic, in their order, and a last one for all others.
	Periodic []PeriodicMetrics
	TickLate Histogram // of the ticks for which a job was pushed: how long after they were due
	// Limits are the first 49 limits of the configuration by name, and a last one for all others; nil without any.
	Limits []LimitMetrics
	// Outboxes are those of Config.Outboxes, in their order.
	Outboxes []OutboxMetrics
	// Budgets is the part of its restart budget that each supervisor has used, by its path: at
	// 1 the next crash makes it give up. Strategies without a budget are missing.
	Budgets map[string]float64
}

// ClassMetrics are the runs of the jobs of one class, and where jobs were moved that are not
// done. A job whose slot was given away since it is unresponsive counts twice: with its
// failure, and as late when it ends.
type ClassMetrics struct {
	Class string // "" for the others, those without a handler here among them

	// Runs are those that have ended, by outcome: done, error, panic, interrupted, parked, moved,
	// handed (over to another queue), left (in its queue), expired (dropped without a run), or late
	// if the outcome of the job had been decided before. An outcome that the class has not had is missing.
	Runs     map[string]uint64
	Times    Histogram // of runs without an error, and of the interrupted
	Progress uint64    // what its runs have told to be done, see troupe.Job.SetProgress; items of iterable jobs
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
	Processors   map[tree.State]int
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

// Metrics are those of the daemon: classes are the registry's, totals the runs of each class of
// package run, moved counts the moves, and ticks the ticks. It looks at each actor.
func (v *View) Metrics(classes []string, totals []runs.Totals, moved *Moves, ticks *Ticks, progress []uint64) Metrics {
	m := Metrics{
		Phase: v.Phase, RedisUp: !v.Outage.Away(), RedisOutage: v.Outage.Total(), Fencings: v.Fencings,
		LogDropped: v.Log.Dropped, LogBlocked: v.Log.Blocked, Budgets: map[string]float64{},
		Classes: classMetrics(classes, totals, moved, progress), Queues: v.queueMetrics(),
	}
	m.Periodic, m.TickLate = ticks.of()
	rows := v.System.Snapshot(v.Now)
	for _, r := range rows {
		i := slices.IndexFunc(m.Actors, func(a ActorMetrics) bool { return a.Role == r.Role && a.Capsule == r.Capsule })
		if i < 0 {
			i, m.Actors = len(m.Actors), append(m.Actors, ActorMetrics{Role: r.Role, Capsule: r.Capsule})
		}
		m.Actors[i].Crashes += uint64(r.Failures)
		m.Actors[i].Restarts += uint64(r.Restarts)
	}
	t := v.tree(rows)
	for _, n := range t {
		if n.Budget != nil {
			m.Budgets[n.Path] = float64(n.Budget.Used) / float64(n.Budget.Most)
		}
	}
	m.Outboxes = v.outboxMetrics()
	for i := range v.Capsules {
		m.Capsules = append(m.Capsules, v.Capsules[i].metrics(t, v.Now))
	}
	return m
}

func classMetrics(classes []string, totals []runs.Totals, moved *Moves, progress []uint64) (all []ClassMetrics) {
	byClass := make([]runs.Totals, named(len(classes))+1)
	byClass[len(byClass)-1] = totals[0]
	for i := range classes {
		byClass[named(i)].Add(&totals[1+2*i])
		byClass[named(i)].Add(&totals[2+2*i])
	}
	for i := range byClass {
		t := &byClass[i]
		c := ClassMetrics{Runs: map[string]uint64{"late": 0}, Times: histogram(&t.Times), Moves: moved.of(i)}
		if i < len(byClass)-1 {
			c.Class = classes[i]
		}
		for o := range job.Ends {
			c.Runs["late"] += t.Late[o]
			if c.Class == "" || t.Ended[o] > 0 || o < job.HandedOver { // which most classes never have
				c.Runs[o.String()] = t.Ended[o]
			}
		}
		all = append(all, c)
	}
	for i, n := range progress {
		all[named(i)].Progress += n
	}
	return all
}

func (c *Capsule) metrics(t tree.Tree, now time.Time) CapsuleMetrics {
	m := CapsuleMetrics{
		Capsule: c.Name, Processors: map[tree.State]int{}, Waiting: -c.Busy, Unresponsive: c.UnresponsiveCount,
		Fetch: histogram(&c.Fetch), Settle: histogram(&c.Settle),
	}
	for _, n := range c.Unsettled {
		m.Waiting += n
	}
	m.Waiting = max(0, m.Waiting)
	for _, n := range t {
		if n.Role == "processor" && n.Capsule == c.Name {
			m.Processors[n.State]++
		}
	}
	for _, ref := range slices.AppendSeq(c.Replaced, maps.Values(c.Working)) {
		if !ref.Started.IsZero() {
			m.OldestRun = max(m.OldestRun, now.Sub(ref.Started))
		}
	}
	return m
}

// queueMetrics adds up the queues of all capsules.
func (v *View) queueMetrics() (all []QueueMetrics) {
	var sums []runs.Queue
	for i := range v.Capsules {
		for _, q := range v.Capsules[i].Queues {
			same := func(o runs.Queue) bool { return o.Name == q.Name }
			at := slices.IndexFunc(sums, same)
			if at < 0 && len(sums) >= maxQueues-1 {
				q.Name = ""
				at = slices.IndexFunc(sums, same)
			}
			if at < 0 {
				sums = append(sums, q)
				continue
			}
			sums[at].Fetched += q.Fetched
			sums[at].Waits.Add(&q.Waits)
		}
	}
	for i := range sums {
		all = append(all, QueueMetrics{Queue: sums[i].Name, Fetched: sums[i].Fetched, Waits: histogram(&sums[i].Waits)})
	}
	return all
}
