package config

import (
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/supervisor"
)

// File is what a configuration file says, the section of its environment merged
// in. Zero values were not said.
type File struct {
	Concurrency int
	Timeout     time.Duration
	Verbose     bool
	Tag         string
	Labels      []string
	Environment string
	Queues      fetch.Queues // of the capsule default
	Capsules    []capsule
	Handlers    []handlerEntry
	Env         []variable // that all programs get

	Shards   []shardEntry // instead of Redis, Concurrency, Queues and Capsules
	Redis    string       // URL
	Lease    time.Duration
	Poison   actors.Poison   // zero fields are defaults, -1 is none
	Fetch    string          // "reliable", "basic": of capsules that do not say it themselves
	Strategy *strategyEntry  // of the launcher
	Unknown  *actors.Unknown // of capsules that do not say it themselves

	MaxRetries             int // -1 for none
	DeadMax                int
	DeadTimeout            time.Duration
	PollInterval           time.Duration
	PollIntervalPerProcess time.Duration
	MaxIterationRuntime    time.Duration
	Timestamps             troupe.Timestamps
	Metrics                string
	WorkersKey             bool

	Encryption encryptionEntry

	JobLimits []limitEntry // of classes and queues

	Outboxes []outboxEntry

	Periodic          []troupe.Periodic
	PeriodicTag       string         // the tag that was said
	PeriodicElsewhere bool           // another process carries out all ticks
	Zone              *time.Location // of their lines that name none; nil is the local one

	Ops       string // where platforms ask; "" nowhere
	LogFormat string // "json", "console"
	LogLevel  string // "debug", "info", "warn", "error"

	Warnings Faults // lines that have no effect

	unknownLine int

	scheduleFile  string // of sidekiq-cron
	scheduleNamed bool   // in this file

	// unclear: no handlers is a consequence of another fault.
	unclear bool
}

// capsule is one entry of capsules:.
type capsule struct {
	Name            string
	Concurrency     int
	Queues          fetch.Queues
	Fetch           string
	Wire            string            // "" is Sidekiq
	Namespace       string            // of wire: go-workers
	Classes         map[string]string // of wire: go-workers, by queue
	Laravel         *laravelEntry     // of wire: laravel; nil: nothing was said
	Unknown         *actors.Unknown   // nil: as the top level says
	Limits          actors.Limits
	Rest            time.Duration
	Waiters         int // how many threads of Sidekiq it counts as
	FetchBytes      int // of the payloads that one fetch brings
	MaxUnresponsive int // how many unresponsive jobs give their slot away
	Strategy        *strategyEntry

	waitersLine, wireLine, unknownLine int
}

// handlerEntry is one entry of handlers:, with one of Builtin, Exec and HTTP.
type handlerEntry struct {
	Class   string
	Builtin string
	Exec    []string
	HTTP    *httpEntry
	Timeout time.Duration
	Env     []variable // that the program gets
	// Recovery is where its jobs go whose process died.
	Recovery troupe.Recovery
	// Take is the share of its jobs that are run, and RestQueue where the others go.
	Take      troupe.Share
	RestQueue string
	// ExpireAfter is how long after its push a run of a job may start, and DropExpired has late jobs be dropped.
	ExpireAfter time.Duration
	DropExpired bool
	// ResultFor is for how long the ends of its jobs are kept, and Result has the output of a program be the result.
	ResultFor time.Duration
	Result    bool
	// Unique says which of its jobs are the same, for who pushes with the file; nil: they are not unique.
	Unique *troupe.Unique
	// Limits are the keys of its limits under limits:.
	Limits []string

	line int
}

// strategyEntry is a supervision strategy by its name, one_for_one for example.
type strategyEntry struct {
	Name string
	Spec supervisor.Spec
}
