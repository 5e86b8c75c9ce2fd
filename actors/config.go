package actors

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/wire"
)

// Config is everything a daemon is built from. Redis and Registry are required;
// every other zero value is a working default: "" and nil are what their fields say, and a number of 0 is
//
//	Concurrency             10
//	Timeout                 25s
//	Grace                   3s
//	Lease                   30s
//	Poison.Recoveries       3
//	Poison.Within           72h0m0s
//	MaxRetries              25
//	DeadMax                 10000
//	DeadTimeout             4320h0m0s
//	PollIntervalPerProcess  5s
//	HeartbeatInterval       10s
//	Capsule.FetchBytes      1048576
//
// A Config is read once, by New.
type Config struct {
	// Redis is a *redis.Client (Sentinel included) or a *redis.ClusterClient; any other
	// type is refused. Only its options are used, not its hooks (see OnClient).
	// The daemon opens clients of its own with these options, and with MaxRetries -1,
	// since a silently repeated fetch loses jobs. It never closes this client.
	Redis redis.UniversalClient

	// OnClient is called with each client that the daemon opens, a *redis.Client or
	// a *redis.ClusterClient as Redis is, before its first command: to add hooks for
	// tracing or metrics. New opens one for most commands. The daemon opens and closes
	// others that wait, and calls OnClient for them from any goroutine. OnClient must
	// not close the client or change its options. go-redis itself shows subscriptions
	// to dial hooks only, and commands that go to each node of a cluster only to hooks
	// that OnNewNode has added.
	OnClient func(rdb redis.UniversalClient)

	// Registry has the handlers. It must not change after New.
	Registry *troupe.Registry

	// Logger is the log of the daemon; its zero value logs nothing, and Slog makes one of a *slog.Logger. A handler gets it from
	// zerolog.Ctx, with the fields of its job. The field "log_level" of a job is the level of all lines
	// about that job, also those of the handler. Error texts, jids,
	// classes and queues are cut to 1 KB each. The field "error_bytes" has the length of
	// an error that was cut; the other texts end in their length, as in "aaaa… (20971520 bytes)".
	Logger zerolog.Logger
	// DoneLevel is the level of the line "job done", one for each job that has succeeded. The zero
	// value is zerolog.DebugLevel: the log of a program is its own. "troupe run" sets
	// zerolog.InfoLevel.
	DoneLevel zerolog.Level

	// Concurrency and Queues are those of the one capsule of a daemon without Capsules:
	// see Capsule, also for what 0 and nil mean.
	Concurrency int
	Queues      fetch.Queues
	// Capsules run side by side, each with its own queues, processors and strategy. With
	// any, Concurrency and Queues must not be set.
	Capsules []Capsule

	// QueueLimits are limits by the bare name of a queue: how many of its jobs run at once, or start in a period, in all processes
	// together, whatever their class. Limits of a class are in troupe.Options. They hold for jobs that this daemon runs, and need
	// Sidekiq's wire and the reliable fetcher.
	QueueLimits map[string][]troupe.Limit

	// Timeout is how long a stop waits for running jobs before it requeues
	// them. Let the platform wait 8 s longer before it kills: Kubernetes waits 30 s, unless
	// terminationGracePeriodSeconds says more.
	Timeout time.Duration
	// Grace is how long a stop then waits for the cancelled jobs to return.
	Grace time.Duration

	// Lease is how long Redis trusts this process without a sign of life; then
	// another process rescues its jobs. At least 1 s.
	Lease time.Duration

	// Poison limits how often a job may take its process down.
	Poison Poison
	// Recovery says where a job goes when its process has died under it; times is how
	// often that has happened, this time included. The process that puts the job back
	// calls it, also for classes without a handler here, in place of the classes'
	// Options.Recovery. With nil the classes decide. If it panics or takes longer than a
	// second, the job goes back to its queue. Until that call has returned, it is not
	// called for other jobs: they go back to their queues as well. The log names each.
	Recovery func(p *troupe.Payload, times int) troupe.Recovery

	Tag         string   // shown by Sidekiq's UI beside the process; "" none
	Labels      []string // likewise
	Environment string   // for logs; "" means development

	// Middleware wraps every handler of every capsule; the first is outermost.
	Middleware []troupe.Middleware
	// ClientMiddleware runs on what the poller enqueues, as Sidekiq's does. Give
	// the same to the client.Client that pushes.
	ClientMiddleware []client.Middleware

	// Client is what handlers get from client.FromContext. nil: one that pushes into Redis through
	// ClientMiddleware, with Timestamps and Encryption.
	Client *client.Client

	// Encryption has the keys with which the last argument of a job that is sealed is opened for its handler, and
	// with which the client above seals if it is made here. A sealed job whose key is missing fails, and is retried.
	Encryption troupe.Encryption

	// Periodic are jobs that are pushed by the clock, once a tick in the whole fleet. They are written
	// to Redis at the start, and stay there. Every daemon with a capsule of Sidekiq's wire carries out
	// all that are in Redis.
	Periodic []troupe.Periodic
	// PeriodicTag names the configuration that Periodic belongs to. A start removes the entries that an
	// earlier start with this tag has written and that are not in Periodic any more. Configurations with
	// different Periodic need different tags. With "" nothing is removed.
	PeriodicTag string
	// PeriodicElsewhere has this daemon carry out no ticks: other processes do, of Ruby for example. Say it in
	// all daemons of a Redis, since the one that leads the scheduler carries them out for all.
	PeriodicElsewhere bool
	// Zone is that of lines of Periodic, and of Ruby's periodic jobs, that name none; nil is that of
	// the environment variable TZ, else of the system.
	Zone *time.Location

	// Outboxes are relays that bring rows of databases to Redis; see package outbox.
	Outboxes []Outbox

	// ErrorHandlers are told of every failure, after it was stored.
	ErrorHandlers []ErrorHandler
	// DeathHandlers are told of every job that will not run again. Of the jobs that
	// this process moves to the dead set for dead ones they are told about four at a
	// time, while the others wait in memory; a stop waits for that until its deadline.
	DeathHandlers []DeathHandler
	// On holds the lifecycle callbacks.
	On Events
	// Subscribers get every Event from the start; see Daemon.Subscribe.
	Subscribers []func(event.Event)

	// Reload is called at SIGHUP, by Main: what it returns is given to Daemon.Configure and to Daemon.ConfigureLimits. After
	// an error nothing changes, and the log tells why. nil: SIGHUP does what it does without
	// this package.
	Reload func() ([]Capsule, []troupe.Limit, error)

	// Strategy supervises the children of the launcher (heartbeat, poller,
	// rescuer, managers); nil means supervisor.Default.
	Strategy *supervisor.Strategy

	// MaxRetries is the number of retries of a job whose retry is true and whose
	// class has no Retries; -1 means none: dead at the first failure.
	MaxRetries int
	// RetryIn is the troupe.Options.RetryIn of the classes that have none; nil is Sidekiq's wait. Jobs of
	// another system, and those without a handler, wait by their own rules.
	RetryIn func(attempt int, err error, p *troupe.Payload) troupe.Delay
	// DeadMax and DeadTimeout bound the dead set.
	DeadMax     int
	DeadTimeout time.Duration
	// Timestamps is how times are written into jobs; the default (float) is the
	// one that Sidekiq 6, 7 and 8 all read.
	Timestamps troupe.Timestamps

	// PollInterval is the average wait between two looks at the schedule and
	// retry sets; 0 means the number of processes times PollIntervalPerProcess.
	PollInterval           time.Duration
	PollIntervalPerProcess time.Duration

	// HeartbeatInterval is the time between two beats.
	HeartbeatInterval time.Duration

	// MaxIterationRuntime interrupts an iterable job (troupe.HandleIterable) that has
	// been at it for so long: it goes on behind what waits in its queue. 0 means
	// never.
	MaxIterationRuntime time.Duration

	// Metrics says for the Metrics page of which Sidekiq the runs of each class are
	// counted: "7", "8", "both" or "off"; "" means "both". Sidekiq 6 has no such page.
	Metrics string
	// WorkersKey shows the running jobs under IDENTITY:workers as well, where the
	// Busy page and the API of Sidekiq up to 6.4.1 look for them.
	WorkersKey bool

	// Embedded must be true in a program that goes on when its daemon has ended.
	// Signals from Sidekiq's Web UI and API are then ignored, with a warning in the
	// log, and the UI (since 7) has no buttons Quiet and Stop. If it is false, Stop in the
	// UI ends the daemon, but not the program: Run returns nil, and Done is closed.
	Embedded bool
	// Version is shown by Sidekiq's UI; "" means troupe's own.
	Version string
}

// Capsule is a set of queues with processors of their own.
type Capsule struct {
	Name        string       // letters, digits, _ . : -; "" means default (only one may be)
	Concurrency int          // number of processors
	Queues      fetch.Queues // nil means fetch.Strict{"default"}

	// Waiters is how many connections per queue wait for a push while processors are free.
	// Redis gives a pushed job to whoever has been blocked for the longest: beside idle
	// threads of Ruby's Sidekiq each waiter counts like one of them. 0 means 1; at most
	// eight a capsule, the first queues first: the others are looked at every 500 ms. Not
	// with fetch.NewBasic.
	Waiters int

	// FetchBytes bounds memory: the payloads that one fetch brings, and those that wait
	// for a processor, in bytes. A job that is larger comes alone. 0 means
	// 1 MiB; more does not make small jobs faster.
	FetchBytes int

	// MaxUnresponsive is how many jobs may give up their slot that do not end although their
	// context was cancelled Config.Grace ago: such a job fails with the cause of
	// the cancellation, its late result is refused, and another takes the slot
	// while its goroutine goes on. 0 keeps the slot until it ends.
	MaxUnresponsive int

	// Unknown says what becomes of jobs whose class has no handler; the zero value fails them.
	Unknown Unknown

	// Limits end the capsule by itself, for a worker that a supervisor starts again, or that works
	// a queue off.
	Limits Limits
	// Rest is how long a processor pauses after each job; 0 is not at all.
	Rest time.Duration

	// Wire is the system that the jobs of this capsule belong to, if not Sidekiq: one of the
	// packages below wire makes it. Its queues are those of that system. nil means Sidekiq.
	Wire *wire.Wire
	// Fetch makes the fetcher; nil means that of Wire, or fetch.NewReliable.
	Fetch fetch.Factory
	// Strategy supervises the fetcher and the processors; nil means
	// supervisor.Default.
	Strategy *supervisor.Strategy
	// Middleware is added inside Config.Middleware.
	Middleware []troupe.Middleware
}

// ErrorHandler is told of a failure: of a job (Queue is set) or of the daemon's
// own machinery. It runs in the goroutine that met the failure, several at once if
// several jobs fail, and a job's slot waits for it. ctx does not end. A panic in it
// is logged and harms nobody.
type ErrorHandler func(ctx context.Context, err error, in ErrorContext)

// ErrorContext says where an error happened.
type ErrorContext struct {
	Actor   string          // path in the tree, like launcher/default/processor-3
	Message string          // what was being done
	Payload *troupe.Payload // the job, nil if there is none or it cannot be read
	Queue   string          // the queue it was fetched from
}

// DeathHandler is told of a job that will not run again: exhausted, killed,
// discarded or never to be retried. The payload carries the error fields. It is called
// as an ErrorHandler is.
type DeathHandler func(ctx context.Context, p *troupe.Payload, err error)

// Events are the lifecycle callbacks, in the order in which they fire. Startup
// errors end the start; panics in any of them are logged. Quiet, Shutdown and
// Exit run in reverse order of registration, each once.
type Events struct {
	Created   []func(d *Daemon)                 // by New, which is about to return d
	Startup   []func(ctx context.Context) error // before the first fetch
	Heartbeat []func(ctx context.Context)       // the first beat, and back after an outage
	Beat      []func(ctx context.Context)       // every beat
	Quiet     []func(ctx context.Context)       // fetching has been told to end
	Shutdown  []func(ctx context.Context)       // stop has begun
	Exit      []func(ctx context.Context)       // all jobs are settled, just before the end
}

// withDefaults returns c with every zero value replaced by its default.
func (c Config) withDefaults() Config {
	def(&c.Timeout, limits.Timeout)
	def(&c.Grace, limits.Grace)
	def(&c.Lease, limits.Lease)
	c.Poison = c.Poison.withDefaults()
	def(&c.MaxRetries, limits.Retries)
	def(&c.DeadMax, limits.DeadMax)
	def(&c.DeadTimeout, limits.DeadTimeout)
	def(&c.PollIntervalPerProcess, limits.PollEach)
	def(&c.HeartbeatInterval, limits.Beat)
	def(&c.Environment, "development")
	def(&c.Version, Version)
	if len(c.Capsules) == 0 {
		c.Capsules = []Capsule{{Concurrency: c.Concurrency, Queues: c.Queues}}
	}
	c.Outboxes = append([]Outbox(nil), c.Outboxes...)
	for i := range c.Outboxes {
		def(&c.Outboxes[i].Name, "main")
	}
	c.Capsules = append([]Capsule(nil), c.Capsules...)
	for i := range c.Capsules {
		k := &c.Capsules[i]
		def(&k.Name, "default")
		def(&k.Concurrency, limits.Concurrency)
		def(&k.FetchBytes, limits.Bytes)
		if k.Queues == nil {
			k.Queues = fetch.Strict{"default"}
		}
		if k.Fetch == nil && k.Wire != nil {
			k.Fetch = k.Wire.Fetch
		}
		if k.Fetch == nil {
			k.Fetch = fetch.NewReliable
		}
	}
	return c
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Version is troupe's own version, shown by Sidekiq's UI and in logs.
const Version = beat.Version

// The orders in which a capsule takes from its queues, as package fetch has them.
type (
	// Strict empties each queue before it looks at the next; see fetch.Strict.
	Strict = fetch.Strict
	// Weighted gives each queue a chance by its weight; see fetch.Weighted.
	Weighted = fetch.Weighted
)
