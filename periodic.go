package troupe

import "time"

// Periodic is a job that is pushed at each tick of a cron line: once a tick in the whole fleet,
// whoever of its processes lives. It is kept in Redis as sidekiq-cron keeps its jobs, so that
// Ruby's page and poller have it, too. docs/periodic.md tells all of it.
type Periodic struct {
	Name string // of the entry: the only one of its Namespace

	// Cron is the line, such as "0 4 * * * Europe/Berlin", "@daily" or "every 15m". A line without
	// a zone is in that of the environment variable TZ, else of the system.
	Cron string

	// Args are the arguments of each job: a type with a Class, whose Defaults hold, or a []any
	// beside the name of a Class; nil is no arguments.
	Args  any
	Class string

	Queue       string  // "" is that of the type's Defaults, else default
	Retries     Retries // unset is that of the type's Defaults
	Description string  // for people

	// Namespace is that of sidekiq-cron since its version 2; "" is default, or none where Redis has
	// entries of an older version only.
	Namespace string

	// Missed says what becomes of ticks at which no process lived or Redis was away, MissedMax how
	// many are made up for by MissedAll, the newest; 0 is 100.
	Missed    Missed
	MissedMax int

	// Once runs a tick in the hour that a clock of a zone repeats only the first time, and one in
	// the hour that it leaves out right after it. Unset, the first runs twice and the other not at
	// all, as in Ruby.
	Once bool

	// Overlap OverlapSkip is to push nothing while the job of an earlier tick waits or runs, for retries as well. It
	// holds a lock as unique jobs do. Not on a Redis Cluster.
	Overlap Overlap

	// SidekiqScheduler shares the ticks with Ruby's sidekiq-scheduler, which has an entry of this Name as well: each
	// is pushed by one of the two, and what is disabled on one's page is disabled in the other. An entry that is read
	// from a file of that gem has it set.
	SidekiqScheduler bool

	// Disabled is for a new entry: it pushes nothing until it is enabled. An entry that is in Redis keeps its state.
	Disabled bool

	// DateArg adds the time of the push in seconds to the arguments, as date_as_argument does in
	// Ruby. Tick has the tick itself.
	DateArg bool

	// ActiveJob wraps the job as Rails does, for Ruby to run; its queue is then QueuePrefix,
	// QueueDelimiter ("" is "_") and Queue.
	ActiveJob                   bool
	QueuePrefix, QueueDelimiter string
}

// Missed says what becomes of the ticks of a Periodic that were missed.
type Missed string

// The values of Missed.
const (
	MissedSkip Missed = "skip" // nothing, unless the last is at most a minute old; the zero value, too
	MissedLast Missed = "last" // one job for all
	MissedAll  Missed = "all"  // one job for each
)

// Overlap says what becomes of a tick of a Periodic while the job of an earlier one is there.
type Overlap string

// OverlapSkip is the value of Overlap; the zero value pushes at each tick.
const OverlapSkip Overlap = "skip"

// Tick is the tick of a Periodic for which p was pushed; false if it was pushed otherwise, or by Ruby.
// However late a job runs, and however often, its tick is the same.
func Tick(p *Payload) (time.Time, bool) {
	text, _ := p.String("troupe_tick")
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil
}
