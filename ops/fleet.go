package ops

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/fleet"
)

// The metrics of a fleet. One process is to expose them, since all would tell the same.
var (
	queueJobs      = gauge("queue_jobs", "Jobs that wait in the queue.", "queue")
	queueLatency   = gauge("queue_latency_seconds", "Time since the push of the oldest job of the queue.", "queue")
	queuePaused    = gauge("queue_paused", "Whether the queue is paused.", "queue")
	queueListeners = gauge("queue_listeners", "Processes that take from the queue: neither quiet nor silent.", "queue")
	setJobs        = gauge("set_jobs", "Jobs in the set.", "set")
	setOverdue     = gauge("set_overdue_seconds", "Time since the first job of the set was due; 0 if none is.", "set")
	fleetProcesses = gauge("fleet_processes", "Processes on the list, by what runs them and by phase.", "runtime", "phase")
	orphanedJobs   = gauge("orphaned_jobs", "Jobs in progress of processes that have died, which wait for a rescuer.")

	limitHeld   = gauge("limit_held", "Jobs that the limit holds, of all its keys.", "limit")
	limitSlots  = gauge("limit_slots", "Slots of the limit that are taken, of all its keys.", "limit")
	limitOldest = gauge("limit_oldest_held_seconds", "Time since the push of the oldest job that the limit holds; 0 if it holds none.", "limit")
	limitOpen   = gauge("limit_open", "Whether the limit lets jobs in: 0 if it allows 0, or is not defined.", "limit")
	limitRests  = gauge("limit_resting", "Keys of the limit that rest: their breakers are open. 1 of a limit without keys.", "limit")

	batches      = gauge("batches", "Batches that have not ended, by state.", "state")
	batchPending = gauge("batch_pending_jobs", "Jobs of those batches that are not done.")
)

var fleetMetrics = []*metric{
	queueJobs, queueLatency, queuePaused, queueListeners, setJobs, setOverdue, fleetProcesses, orphanedJobs,
	limitHeld, limitSlots, limitOldest, limitOpen, limitRests, batches, batchPending,
}

const (
	maxNamed  = 99               // queues, limits
	fleetTime = 10 * time.Second // for all questions to Redis
)

// Fleet returns the metrics of a fleet, Ruby's processes among it, as Redis shows them: queues,
// sets, processes, limits and batches. It asks Redis at each Collect, for 10 s at most, keeps nothing and writes nothing. Of
// queues and limits it names 99 each, the fullest, and adds the others up as _other. One process of a fleet is
// to expose them, or sums over the fleet are too large.
func Fleet(rdb redis.UniversalClient) prometheus.Collector {
	f := fleet.New(rdb, nil) // metrics have no texts of jobs
	return fleetCollector{f, fleetTime}
}

type fleetCollector struct {
	*fleet.Fleet
	within time.Duration
}

func (fleetCollector) Describe(ch chan<- *prometheus.Desc) { describe(ch, fleetMetrics) }

func (f fleetCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), f.within)
	defer cancel()
	p := points{}
	for _, read := range []func(context.Context, *points) error{f.processes, f.sets, f.orphans, f.limits, f.batches} {
		if err := read(ctx, &p); err != nil {
			ch <- prometheus.NewInvalidMetric(orphanedJobs.desc, err)
			return
		}
	}
	p.collect(ch)
}

// phases are those that a process of the fleet may have.
var phases = []string{fleet.Running, fleet.Quiet, fleet.Stopping, fleet.Silent, fleet.Gone}

// processes reads the processes, and the queues with those that take from them.
func (f fleetCollector) processes(ctx context.Context, p *points) error {
	all, err := f.Processes(ctx)
	if err != nil {
		return err
	}
	counts, listeners := map[[2]string]int{}, map[string]int{}
	for _, one := range all {
		counts[[2]string{one.Runtime, one.Phase}]++
		if one.Listens() {
			for _, q := range one.Queues {
				listeners[q]++
			}
		}
	}
	for _, runtime := range []string{"troupe", "ruby"} {
		for _, phase := range phases {
			p.add(fleetProcesses, float64(counts[[2]string{runtime, phase}]), runtime, phase)
		}
	}
	return f.queues(ctx, p, listeners)
}

func (f fleetCollector) queues(ctx context.Context, p *points, listeners map[string]int) error {
	all, err := f.Inspector.Queues(ctx) // the fullest first
	if err != nil {
		return err
	}
	rest := inspect.QueueSummary{Queue: f.Inspector.Queue(other)}
	if len(all) > maxNamed {
		for _, q := range all[maxNamed:] {
			rest.Size, rest.Latency = rest.Size+q.Size, max(rest.Latency, q.Latency)
			listeners[other] = max(listeners[other], listeners[q.Name])
		}
		all = append(all[:maxNamed], rest)
	}
	for i, q := range all {
		name := text(q.Name)
		if name == other && i < maxNamed { // a queue of that name
			name = strconv.Quote(name)
		}
		p.add(queueJobs, float64(q.Size), name)
		p.add(queueLatency, q.Latency.Seconds(), name)
		p.add(queuePaused, oneIf(q.Paused), name)
		p.add(queueListeners, float64(listeners[q.Name]), name)
	}
	return nil
}

// sets reads the sets of jobs: of what is in them only the first entry that is due.
func (f fleetCollector) sets(ctx context.Context, p *points) error {
	for _, set := range []*inspect.JobSet{f.Inspector.RetrySet, f.Inspector.ScheduledSet, f.Inspector.DeadSet} {
		size, err := set.Size(ctx)
		if err != nil {
			return err
		}
		p.add(setJobs, float64(size), set.Name)
		if set == f.Inspector.DeadSet { // its jobs are not due
			continue
		}
		now, overdue := time.Now(), 0.0
		first, _, err := set.Due(ctx, now)
		if err != nil {
			return err
		}
		if first != nil {
			overdue = first.Overdue(now).Seconds()
		}
		p.add(setOverdue, overdue, set.Name)
	}
	return nil
}

func (f fleetCollector) orphans(ctx context.Context, p *points) error {
	all, err := f.Inspector.Fetchers(ctx)
	if err != nil {
		return err
	}
	jobs := int64(0)
	for _, one := range all {
		if !one.Alive {
			jobs += one.Size
		}
	}
	p.add(orphanedJobs, float64(jobs))
	return nil
}

// batches reads up to 10,000 of them.
func (f fleetCollector) batches(ctx context.Context, p *points) error {
	all, _, err := f.Inspector.Batches(ctx)
	if err != nil {
		return err
	}
	states, pending := map[string]int{}, int64(0)
	for _, b := range all {
		if !b.Ended() {
			states[b.State()]++
			pending += b.Pending
		}
	}
	for _, state := range []string{inspect.BatchOpen, inspect.BatchRunning, inspect.BatchComplete} {
		p.add(batches, float64(states[state]), state)
	}
	p.add(batchPending, float64(pending))
	return nil
}
