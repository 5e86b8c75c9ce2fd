// Package keys names every Redis key that troupe reads or writes. Keys are
// never prefixed; a database number separates installations.
package keys

// Sidekiq's own keys.
const (
	Queues    = "queues"    // set of bare queue names
	Paused    = "paused"    // set of bare names of queues from which nothing is fetched
	Schedule  = "schedule"  // zset, score = run time in seconds
	Retry     = "retry"     // zset, score = next attempt
	Dead      = "dead"      // zset, score = time of death
	Processes = "processes" // set of identities

	ProcessCleanup = "process_cleanup" // lock of the cleanup of Processes
	StatProcessed  = "stat:processed"
	StatFailed     = "stat:failed"
)

// Queue is the list of a queue: pushed left, taken right.
func Queue(name string) string { return "queue:" + name }

// Work is the hash of running jobs of a process; Workers its name up to Sidekiq 6.4.1.
func Work(identity string) string { return identity + ":work" }

// Workers is the old name of Work.
func Workers(identity string) string { return identity + ":workers" }

// Signals is the list of signals sent to a process.
func Signals(identity string) string { return identity + "-signals" }

// Iteration is the hash with the state of an iterable job.
func Iteration(jid string) string { return "it-" + jid }

// troupe's own keys. A fetcher id is IDENTITY#CAPSULE.INCARNATION.
const (
	Rescue = "troupe:rescue" // lock: one rescuer at a time
	Search = "troupe:search" // lock: lists that no index names have been looked for
	Poller = "troupe:poller" // lock: identity of the process that leads the promotion of due jobs
	Wakeup = "troupe:wakeup" // pub/sub channel: something was pushed into schedule or retry

	Recovered    = "troupe:recovered" // zset: job, score = ms of its last recovery
	RecoveredLog = Recovered + ":log" // hash: job -> its recoveries as JSON
)

// Suspects is the bare name of the queue in which suspects of a queue wait.
func Suspects(queue string) string { return queue + SuspectsSuffix }

// SuspectsSuffix ends the name of a queue of suspects.
const SuspectsSuffix = ".suspects"

// Standby is the lock of the process that waits for Poller.
const Standby = Poller + ":standby"

// Pushed remembers the last batch that a client has sent from its buffer.
func Pushed(token string) string { return "troupe:pushed:" + token }

// Flushed remembers the last batch of statistics of a process.
func Flushed(identity string) string { return "troupe:flushed:" + identity }

// Progress is the hash of what the running jobs of a process have told of their progress: jid -> JSON.
func Progress(identity string) string { return "troupe:progress:" + identity }

// Tree is the live supervision tree of a process, as JSON.
func Tree(identity string) string { return "troupe:tree:" + identity }

// Requests is the list of what a process is asked for, as JSON.
func Requests(identity string) string { return "troupe:requests:" + identity }

// Replies is the list of the replies to a request.
func Replies(id string) string { return "troupe:replies:" + id }

// Flight is the list of the last exceptional events of a process, as JSON.
func Flight(identity string) string { return "troupe:flight:" + identity }

// Flights is the zset of the processes that have a Flight: identity, score = seconds of the last event.
const Flights = "troupe:flights"

// Pulse is what a process tells of itself for views of a fleet, as JSON; see package pulse.
func Pulse(identity string) string { return "troupe:pulse:" + identity }

// Pulses is the zset of the processes that have a Pulse: identity, score = seconds of the last beat.
const Pulses = "troupe:pulses"

// Depths is the list of what waited in the queues, one sample a minute as JSON, the newest first; see beat.Depths.
const Depths = "troupe:depths"

// WebSession is a session of the dashboard, by the digest of its cookie.
func WebSession(digest string) string { return "troupe:web:session:" + digest }

// WebKey is a secret that all dashboards of a Redis share.
const WebKey = "troupe:web:key"

// Audit is the list of what was done by people, AuditRefused of what was refused to people who
// were not signed in: JSON, the last first.
const (
	Audit        = "troupe:audit"
	AuditRefused = Audit + ":refused"
)

// DearLeader names the leading process of Sidekiq Enterprise.
const DearLeader = "dear-leader"
