package sim

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
)

// Plan is all that a run depends on. The seed of a plan only orders what the
// plan leaves open: which of several pending steps is next, and the like.
type Plan struct {
	Order  uint64
	Fleet  []Process // a place in the fleet, in which one process follows another
	Peers  int       // Ruby workers
	Jobs   []Job
	Faults []Fault

	Cluster  bool // Redis is a cluster; without Ruby workers, which do not run on one
	Troubles []Trouble
	Children Unique // what jobs push with their acks, in part
	Limits   []Limit
	Batches  []Batch
	Waits    []Wait
	Revives  bool // dead jobs of batches are retried

	NoClient bool // Redis knows no CLIENT ID: waits are not ended by their clients
}

// Process is how the processes of one place are set up.
type Process struct {
	Capsules []int // concurrency of each
	Weight   int   // how much faster than others it gets its turns
}

// Job is one job and what its handler does.
type Job struct {
	Queue        string
	After        time.Duration // since the push of the one before it
	In           time.Duration // 0: at once, else pushed for later
	Lasts        time.Duration
	Fails        int           // so many runs fail first
	Unresponsive bool          // does not look at its context
	Rests        time.Duration // its runs have its limits rest for so long
	Kills        Pill

	Pushes int  // so many jobs, with its ack
	Links  int  // jobs behind it in its chain
	Items  int  // it is iterable, and has so many
	Many   bool // it is performed together with others

	Dies  bool   // each run kills it, until it is retried out of the dead set
	Drops bool   // it is discarded
	Grows int    // jobs that it adds to its batch, with its ack
	Makes *Batch // likewise, in its batch

	Result bool // its runs say one
	Kept   bool // its end is kept whatever it is

	Unique Unique
}

// Pill is whether, and when, a job takes the process down that runs it.
type Pill int

// The pills.
const (
	Innocent Pill = iota
	KillsAtStart
	KillsAtEnd
)

// Fault is what happens to a place of the fleet when its step of that number is
// about to be let through; place len(Fleet) is the client. With OfJobs only the
// steps count that have to do with jobs; with OfWays those of moves between the
// slots of a cluster, with OfPushes those that settle a job and push others.
type Fault struct {
	Place    int
	Step     int
	OfJobs   bool
	OfWays   bool // only the steps of moves out of a slot count
	OfPushes bool
	Kind     Kind
	For      time.Duration // of a delay or pause; until the restart, after the end of a process
	Back     int           // so many changes ago: the data that Redis falls back to
}

// Kind of a Fault.
type Kind int

// The faults.
const (
	Kill      Kind = iota // the process is gone; what it has sent is applied or not
	CutBefore             // the connection ends, the command is lost
	CutAfter              // the command is applied, the connection ends instead of a reply
	Late                  // the connection ends, the command is applied some time later
	Delay                 // the command waits
	Pause                 // SIGSTOP, then SIGCONT
	CutAll                // every connection of the process ends
	Term                  // SIGTERM, and a new process later
	Restart               // of Redis, with all its data; the second half of the time it answers LOADING
	Rollback              // the same, with older data
	Failover              // to a server with older data
)

func (k Kind) String() string {
	return [...]string{"kill", "cut before", "cut after", "late", "delay", "pause", "cut all", "term", "redis restarts", "redis falls back", "failover"}[k]
}

// ofCommand reports whether the fault is one of a command, not of a process.
func (f *Fault) ofCommand() bool {
	return f.Kind == CutBefore || f.Kind == CutAfter || f.Kind == Late || f.Kind == Delay
}

// The numbers of a run. A pause may be longer than a lease, and a call.
const (
	lease   = 5 * time.Second
	timeout = 2 * time.Second // of a stop
	grace   = 200 * time.Millisecond
	noticed = lease            // until everybody has seen that Redis has fallen back
	longest = 10 * time.Minute // from the last fault to the last job
	slowest = 2 * time.Hour    // likewise, where jobs are under limits
	freed   = 2 * time.Minute  // until a lock without a job is freed that has refused a push
	most    = 30_000           // steps of a run, for each ten minutes that it may take
	suspect = 2                // recoveries that set a job apart, where they are counted
	limit   = 3                // and that send it to the dead set
)

// poisoned reports whether a job of the plan kills. Then recoveries are counted, and
// there are no Ruby workers: what they have popped would be lost with them.
func (p Plan) poisoned() bool {
	kills := func(j Job) bool { return j.Kills != Innocent }
	return slices.ContainsFunc(p.Jobs, kills) || slices.ContainsFunc(p.allBatches(), func(b *Batch) bool { return slices.ContainsFunc(b.Jobs, kills) })
}

// fallsBack reports whether Redis loses data.
func (p Plan) fallsBack() bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Rollback || f.Kind == Failover })
}

var queues = []string{"a", "b"}

// draw draws evenly: rapid's own numbers are mostly the smallest, and with them
// few faults would hit a job. The bits shrink to 0, which is low.
func draw(t *rapid.T, what string, low, high int) int {
	n := 0
	for range bits.Len(uint(high-low)) + 2 {
		n <<= 1
		if rapid.Bool().Draw(t, what) {
			n++
		}
	}
	return low + n%(high-low+1)
}

func pick[V any](t *rapid.T, what string, from ...V) V { return from[draw(t, what, 0, len(from)-1)] }

// span draws milliseconds out of one of several ranges.
func span(t *rapid.T, what string, ranges ...[2]int) time.Duration {
	r := pick(t, what, ranges...)
	return time.Duration(draw(t, what, r[0], r[1])) * time.Millisecond
}

// plans draws a plan. Zeros are the simplest, so that a failing plan shrinks
// towards few processes, few jobs and few faults.
var plans = rapid.Custom(func(t *rapid.T) Plan {
	p := drawHealthy(t)
	if draw(t, "poison in batches", 0, 7) == 7 && !p.keeps() {
		drawPoison(t, &p)
	}
	return p
})

// healthyPlans draws the plan without jobs of batches that kill.
var healthyPlans = rapid.Custom(drawHealthy)

func drawHealthy(t *rapid.T) Plan {
	p := drawBatched(t)
	if !p.Cluster && !p.poisoned() && draw(t, "results", 0, 7) == 7 {
		drawResults(t, &p)
	}
	if draw(t, "many", 0, 7) == 7 {
		drawMany(t, &p)
	}
	return p
}

// batchedPlans draws the plan without results and calls of many jobs, unbatched without batches as well.
var batchedPlans = rapid.Custom(drawBatched)

func drawBatched(t *rapid.T) Plan {
	p := drawUnbatched(t)
	if !p.Cluster && !p.poisoned() && draw(t, "batched", 0, 3) == 3 {
		drawBatches(t, &p)
	}
	return p
}

var unbatched = rapid.Custom(drawUnbatched)

func drawUnbatched(t *rapid.T) Plan {
	p := drawPlan(t)
	if len(p.Limits) > 0 && draw(t, "breakers", 0, 1) == 1 {
		drawBreakers(t, &p)
	}
	return p
}

// unbroken draws the plan without breakers.
var unbroken = rapid.Custom(drawPlan)

func drawPlan(t *rapid.T) Plan {
	p := Plan{Order: rapid.Uint64().Draw(t, "order")}
	for range pick(t, "places", 1, 2, 2, 3) {
		f := Process{Weight: pick(t, "weight", 1, 1, 3, 9)}
		for range draw(t, "capsules", 1, 2) {
			f.Capsules = append(f.Capsules, draw(t, "concurrency", 1, 3))
		}
		p.Fleet = append(p.Fleet, f)
	}
	p.Peers = pick(t, "peers", 0, 0, 1)
	for range draw(t, "jobs", 1, 12) {
		p.Jobs = append(p.Jobs, drawJob(t))
	}
	if draw(t, "poison", 0, 7) == 7 {
		for range draw(t, "killers", 1, 2) {
			p.Jobs[draw(t, "killer", 0, len(p.Jobs)-1)].Kills = pick(t, "kills", KillsAtStart, KillsAtEnd)
		}
		p.Peers = 0
	}
	p.NoClient = draw(t, "no client", 0, 3) == 3
	if p.Cluster = draw(t, "cluster", 0, 3) == 3; p.Cluster {
		p.Peers = 0
	}
	for range draw(t, "faults", 0, 6) {
		f := drawFault(t, len(p.Fleet))
		if p.poisoned() && (f.Kind == Rollback || f.Kind == Failover) {
			f.Kind = Restart // what is remembered of recoveries would be older as well
		}
		if p.Cluster && draw(t, "of ways", 0, 2) == 2 {
			f.OfWays, f.OfJobs, f.Step = true, false, draw(t, "step", 0, 7)
		}
		p.Faults = append(p.Faults, f)
	}
	if draw(t, "effects", 0, 1) == 1 {
		drawEffects(t, &p)
	}
	if draw(t, "locks", 0, 2) == 2 {
		drawLocks(t, &p)
	}
	if draw(t, "limited", 0, 2) == 2 {
		drawLimits(t, &p)
	}
	return p
}

// drawEffects has jobs push others, and Redis refuse some of that.
func drawEffects(t *rapid.T, p *Plan) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		switch draw(t, "kind", 0, 3) {
		case 1:
			j.Pushes = draw(t, "pushes", 1, 3)
		case 2:
			j.Links = draw(t, "links", 1, 3)
		case 3:
			j.Pushes = draw(t, "pushes", 0, 2)
			j.Links = draw(t, "links", 0, 2)
			if !p.Cluster {
				j.Pushes, j.Items = 0, draw(t, "items", 2, 6)
				j.Lasts += span(t, "lasts", [2]int{0, 1000}, [2]int{4000, 12000})
			}
		}
	}
	for range draw(t, "faults of pushes", 0, 3) {
		f := drawFault(t, len(p.Fleet))
		if f.Place == len(p.Fleet) || f.Kind == Rollback || f.Kind == Failover {
			continue
		}
		f.OfPushes, f.OfJobs, f.Step = true, false, draw(t, "step", 0, 7)
		p.Faults = append(p.Faults, f)
	}
	for range draw(t, "troubles", 0, 2) {
		tr := Trouble{At: span(t, "at", [2]int{0, 1000}, [2]int{0, 15000}), For: span(t, "for", [2]int{1, 300}, [2]int{300, 6000})}
		if draw(t, "wrong type", 0, 2) > 0 {
			tr.Key = pick(t, "key", troubled(p.Jobs)...)
			if p.Peers > 0 && tr.Key == keys.Retry { // Ruby would lose a job
				tr.Key = keys.Schedule
			}
		}
		p.Troubles = append(p.Troubles, tr)
	}
}

// drawLocks has jobs be unique.
func drawLocks(t *rapid.T, p *Plan) {
	var until [2]troupe.UniqueUntil // of a group
	for i := range until {
		until[i] = pick(t, "until", troupe.UntilDone, troupe.UntilDone, troupe.UntilDone, troupe.UntilStart, troupe.UntilPeriod)
	}
	one := func(groups int) Unique {
		group := draw(t, "group", 1, groups)
		return Unique{
			Group: group, Until: until[group-1],
			For: pick(t, "for", 24*time.Hour, 24*time.Hour, 20*time.Second), Across: !p.Cluster && draw(t, "across", 0, 1) == 1,
		}
	}
	for i := range p.Jobs {
		if draw(t, "unique", 0, 3) > 0 {
			p.Jobs[i].Unique = one(map[bool]int{true: 1, false: 2}[p.Jobs[i].Items > 0]) // iterable ones have no argument
		}
	}
	if draw(t, "children", 0, 1) == 1 {
		p.Children = one(2)
	}
}

func drawJob(t *rapid.T) Job {
	j := Job{
		Queue: pick(t, "queue", queues...), After: span(t, "after", [2]int{0, 5}, [2]int{0, 5}, [2]int{0, 700}, [2]int{0, 700}, [2]int{0, 9000}),
		Lasts:        span(t, "lasts", [2]int{0, 5}, [2]int{0, 1000}, [2]int{1000, 9000}),
		Unresponsive: draw(t, "unresponsive", 0, 1) == 1,
	}
	if draw(t, "later", 0, 5) == 5 {
		j.In = span(t, "in", [2]int{1, 3000})
	}
	if draw(t, "bad", 0, 4) == 4 {
		j.Fails = draw(t, "fails", 1, 2)
	}
	return j
}

func drawFault(t *rapid.T, places int) Fault {
	f := Fault{Place: draw(t, "place", 0, places), OfJobs: draw(t, "of jobs", 0, 3) > 0}
	if f.Place == places { // the client: once will do
		f.Place = draw(t, "place", 0, places)
	}
	if f.OfJobs {
		f.Step = draw(t, "step", 0, 30)
	} else {
		f.Step = draw(t, "step", 0, 120)
	}
	f.Kind = pick(t, "kind", CutAfter, CutBefore, Delay, Late, Late, CutAll, Kill, Kill, Kill, Pause, Pause, Pause, Term, Restart, Rollback, Failover)
	switch f.Kind {
	case Pause, Delay:
		f.For = span(t, "for", [2]int{1, 4000}, [2]int{int(lease / time.Millisecond), 16000})
	default:
		f.For = span(t, "for", [2]int{1, 300}, [2]int{300, 4000})
	}
	if f.Kind == Rollback || f.Kind == Failover {
		most := pick(t, "back", 2, 5, 30, snapshots)
		f.Back = draw(t, "back", 1, most)
	}
	return f
}

func (j *Job) String() string {
	return fmt.Sprintf("queue %s, after %s, in %s, lasts %s, fails %d, rests %s, unresponsive %t, kills %d, pushes %d, links %d, items %d, unique %v, dies %t, drops %t, grows %d, result %t, kept %t, many %t",
		j.Queue, j.After, j.In, j.Lasts, j.Fails, j.Rests, j.Unresponsive, j.Kills, j.Pushes, j.Links, j.Items, j.Unique, j.Dies, j.Drops, j.Grows, j.Result, j.Kept, j.Many)
}

// String is the plan for people.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "order %#x, %d ruby, cluster: %t, no CLIENT: %t\n", p.Order, p.Peers, p.Cluster, p.NoClient)
	for i, f := range p.Fleet {
		fmt.Fprintf(&b, "  place %d: capsules of %v, weight %d\n", i+1, f.Capsules, f.Weight)
	}
	for i := range p.Jobs {
		fmt.Fprintf(&b, "  job j%d: %s\n", i+1, &p.Jobs[i])
	}
	for i := range p.Batches {
		b.WriteString(p.Batches[i].text("  "))
	}
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "  fault: %s for %s at step %d (of jobs: %t, of ways: %t, of pushes: %t) of place %d, %d back\n", f.Kind, f.For, f.Step, f.OfJobs, f.OfWays, f.OfPushes, f.Place+1, f.Back)
	}
	fmt.Fprintf(&b, "  children: unique %v\n", p.Children)
	for i, l := range p.Limits {
		fmt.Fprintf(&b, "  limit l%d: %+v\n", i, l)
	}
	fmt.Fprintf(&b, "  waits %v\n", p.Waits)
	for _, t := range p.Troubles {
		fmt.Fprintf(&b, "  trouble: after %s, for %s, key %q\n", t.At, t.For, t.Key)
	}
	return b.String()
}
