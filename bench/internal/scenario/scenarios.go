package scenario

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/result"
)

// Size is how much is measured.
type Size struct {
	Rounds   int
	Jobs     int // of a drain
	SlowJobs int // of a drain by a contender below 50,000 jobs a second
	Count    int // of a run in which commands are counted
	Fail     int // jobs that fail, and jobs that are due
	Waiting  int // jobs that are scheduled and not due
	Limited  int // jobs under a limit

	Processes []int // idle ones, for latency
	Pushes    int   // to them
	Scale     []int // busy ones

	Idle   time.Duration // how long an idle process is watched
	Warm   time.Duration // before that
	Settle time.Duration // before pushes to processes without work
	Fleet  int           // idle daemons in a few processes

	Single, Parallel, Bulk int // jobs to enqueue

	Memory   int   // jobs through one process
	Payloads []int // sizes in bytes
	Volume   int   // bytes of them all
}

// Full is the size of the published figures: some 20 minutes on two cores.
func Full() Size {
	return Size{
		Rounds: 5, Jobs: 250_000, SlowJobs: 50_000, Count: 50_000, Fail: 100_000, Waiting: 1_000_000, Limited: 2500,
		Processes: []int{1, 8, 32}, Pushes: 2000, Scale: []int{1, 2, 4, 8},
		Idle: 30 * time.Second, Warm: 90 * time.Second, Settle: 5 * time.Second, Fleet: 1000,
		Single: 20_000, Parallel: 200_000, Bulk: 1_000_000,
		Memory: 10_000_000, Payloads: []int{10_000, 100_000, 1_000_000}, Volume: 300 << 20,
	}
}

// Short is the size for CI: everything runs, the figures mean nothing.
func Short() Size {
	return Size{
		Rounds: 1, Jobs: 30_000, SlowJobs: 1000, Count: 10_000, Fail: 1000, Waiting: 5000, Limited: 300,
		Processes: []int{1, 3}, Pushes: 100, Scale: []int{2},
		Idle: 20 * time.Second, Warm: 2 * time.Second, Settle: 2 * time.Second, Fleet: 20, // two heartbeats
		Single: 3000, Parallel: 3000, Bulk: 10_000,
		Memory: 50_000, Payloads: []int{100_000}, Volume: 10 << 20,
	}
}

// Scenario is one question.
type Scenario struct {
	Name  string
	About string
	Run   func(context.Context, *Lab) error
}

// All returns the scenarios in the order in which they run.
func All() []Scenario {
	return []Scenario{
		{result.Drain, "preloaded no-op jobs, 25 processors, one queue", runDrain},
		{result.Concurrency, "the same with 5, 25, 100 and 1,000 processors, and with three weighted queues", runConcurrency},
		{result.Cost, "client commands and allocations of the same, counted in runs of their own", runCost},
		{result.Latency, "from push to start, every 2 ms one job to idle processes", runLatency},
		{result.Idle, "what processes without work cost", runIdle},
		{result.Mixed, "how long short jobs wait among long ones", runMixed},
		{result.Slow, "drain through a proxy that adds 1 ms in each direction", runSlow},
		{result.Failures, "jobs that fail, until each is stored for its retry", runFailures},
		{result.Schedule, "due jobs, until each has run", runSchedule},
		{result.Late, "how long after its time a scheduled job starts", runLate},
		{result.Enqueue, "pushing: one by one, from 10 and from 64 goroutines, in bulk", runEnqueue},
		{result.Limits, "jobs of 10 ms of which 5 run at once, by one process and by four", runLimits},
		{result.FanOut, "jobs that push 100 others each, with the ack where that can be, until all have run", runFanOut},
		{result.Scale, "drain by several processes on one Redis", runScale},
		{result.Memory, "memory over many jobs, and with large payloads", runMemory},
	}
}

// jobs is the size of c's drain.
func (l *Lab) jobs(c contender.Contender) int {
	if c.Slow {
		return l.Size.SlowJobs
	}
	return l.Size.Jobs
}

var oneQueue = []string{"default"}

func runDrain(ctx context.Context, l *Lab) error {
	var drains []drain
	for _, c := range l.contenders("troupe", "troupe-info", "brpop", "blmove", "asynq", "go-workers", "go-workers2", "gocraft-work", "river", "sidekiq", "troupe-laravel", "laravel") {
		drains = append(drains, drain{
			scenario: result.Drain, kase: "25 processors", c: c,
			load: contender.Load{Jobs: l.jobs(c), Queues: oneQueue}, work: contender.Work{Concurrency: 25},
		})
	}
	return l.rounds(ctx, drains)
}

func runConcurrency(ctx context.Context, l *Lab) error {
	var drains []drain
	weighted := []contender.Queue{{Name: "critical", Weight: 5}, {Name: "default", Weight: 3}, {Name: "low", Weight: 1}}
	for _, c := range l.contenders("troupe", "brpop", "asynq", "river") {
		d := drain{scenario: result.Concurrency, c: c, load: contender.Load{Jobs: l.jobs(c), Queues: oneQueue}}
		if c.Postgres {
			d.load.Jobs = max(1, d.load.Jobs/5)
		}
		for _, n := range []int{5, 25, 100, 1000} {
			if n+reserved > files() && c.Name != "troupe" {
				l.say("%-12s %d processors of %s need more connections than files may be open", result.Concurrency, n, c.Name)
				continue
			}
			d.kase, d.work.Concurrency = fmt.Sprintf("%d processors", n), n
			drains = append(drains, d)
		}
		if c.Postgres {
			continue // its queues have no weights but workers of their own
		}
		d.kase, d.work = "25, three queues", contender.Work{Concurrency: 25, Queues: weighted}
		d.load.Queues = d.work.Names()
		drains = append(drains, d)
	}
	return l.rounds(ctx, drains)
}

// reserved are the files that a server has open besides its connections.
const reserved = 100

// files is how many may be open in one process.
func files() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Max > 1<<30 {
		return 1 << 30
	}
	return int(limit.Max)
}

func runCost(ctx context.Context, l *Lab) error {
	for _, c := range l.contenders("troupe", "troupe-raw", "brpop", "blmove", "asynq", "sidekiq") {
		d := drain{
			scenario: result.Cost, kase: "25 processors", c: c, count: true,
			load: contender.Load{Jobs: l.Size.Count, Queues: oneQueue}, work: contender.Work{Concurrency: 25},
		}
		o, err := l.measure(ctx, d)
		if err != nil {
			return fmt.Errorf("cost of %s: %w", c.Name, err)
		}
		l.note(d, o)
	}
	return nil
}

func runFailures(ctx context.Context, l *Lab) error {
	var drains []drain
	for _, c := range l.contenders("troupe", "asynq", "gocraft-work", "sidekiq") {
		n := l.Size.Fail
		if c.Slow {
			n /= 5
		}
		drains = append(drains, drain{
			scenario: result.Failures, kase: "25 processors", c: c, failing: true,
			load: contender.Load{Jobs: n, Queues: oneQueue}, work: contender.Work{Concurrency: 25, Fail: true},
		})
	}
	return l.rounds(ctx, drains)
}

func runSchedule(ctx context.Context, l *Lab) error {
	var drains []drain
	for _, c := range l.contenders("troupe", "asynq") {
		n := l.Size.Fail
		if c.Slow {
			n /= 5
		}
		drains = append(drains, drain{
			scenario: result.Schedule, kase: "25 processors", c: c,
			load: contender.Load{Jobs: n, Queues: oneQueue, Due: true}, work: contender.Work{Concurrency: 25, FastPoll: true},
		})
	}
	return l.rounds(ctx, drains)
}

// fan is how many jobs each pushes.
const fan = 100

// runFanOut drains parents and children, which are the same jobs for all: troupe pushes them with the ack, river in one
// transaction with the end of the job, asynq one by one while it runs.
func runFanOut(ctx context.Context, l *Lab) error {
	var drains []drain
	for _, c := range l.contenders("troupe", "asynq", "river") {
		drains = append(drains, drain{
			scenario: result.FanOut, kase: "25 processors", c: c,
			load: contender.Load{Jobs: max(1, l.jobs(c)/fan), Queues: oneQueue, Fan: fan}, work: contender.Work{Concurrency: 25},
		})
	}
	return l.rounds(ctx, drains)
}

func runScale(ctx context.Context, l *Lab) error {
	var drains []drain
	for _, c := range l.contenders("troupe", "brpop", "asynq") {
		for _, n := range l.Size.Scale {
			drains = append(drains, drain{
				scenario: result.Scale, kase: plural(n, "process", "processes"), c: c, procs: n,
				load: contender.Load{Jobs: l.jobs(c), Queues: oneQueue}, work: contender.Work{Concurrency: 25},
			})
		}
	}
	return l.rounds(ctx, drains)
}
