// Package keys names every Redis key that troupe reads or writes. Keys are
// never prefixed; a database number separates installations.
package keys

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

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
	Procs  = "troupe:procs"  // hash: fetcher id -> JSON array of its queue names; membership is the fence
	Leases = "troupe:leases" // zset: fetcher id, score = expiry in ms of Redis's clock; an index of the leases
	Rescue = "troupe:rescue" // lock: one rescuer at a time
	Poller = "troupe:poller" // lock: identity of the process that leads the promotion of due jobs
	Bell   = "troupe:bell"   // pub/sub channel: something was pushed into schedule or retry

	Laps = "troupe:laps" // set of bare names of queues that may have a Lap

	Recovered    = "troupe:recovered" // zset: job, score = ms of its last recovery
	RecoveredLog = Recovered + ":log" // hash: job -> its recoveries as JSON
)

// Suspects is the bare name of the queue in which suspects of a queue wait.
func Suspects(queue string) string { return queue + SuspectsSuffix }

// SuspectsSuffix ends the name of a queue of suspects.
const SuspectsSuffix = ".suspects"

// Standby is the lock of the process that waits for Poller.
const Standby = Poller + ":standby"

// Lease is the string that holds a fetcher's generation while it lives.
func Lease(id string) string { return "troupe:lease:" + id }

// Fenced is the tombstone left by the rescue of a fetcher, kept a day.
func Fenced(id string) string { return "troupe:fenced:" + id }

// WIP is the hash receipt -> payload of what a fetcher has in progress from one
// queue. The tag puts it in the cluster slot of the queue itself.
func WIP(queue, id string) string { return "troupe:wip:{" + Queue(queue) + "}:" + id }

// Parcels begins the keys of the lists that a call of a fetcher fills; a number from 0
// follows. See package parcel.
func Parcels(id, call string) string { return "troupe:parcel:" + id + ":" + call + "." }

// AnyWIP is the pattern of all keys made by WIP.
const AnyWIP = "troupe:wip:{queue:*"

// Lap is the list of jobs that a blocked command of ours has got from a queue and
// no fetcher has taken yet: of all processes together, the oldest on the right.
func Lap(queue string) string { return "troupe:lap:{" + Queue(queue) + "}" }

// AnyPlace is a pattern of all keys made by WIP and by Lap.
const AnyPlace = "troupe:[wl][ia]p:{queue:*"

// ParseLap takes a key made by Lap apart.
func ParseLap(key string) (queue string, ok bool) {
	rest, ok := strings.CutPrefix(key, "troupe:lap:{queue:")
	queue, closed := strings.CutSuffix(rest, "}")
	return queue, ok && closed
}

// ParseWIP takes a key made by WIP apart. A fetcher id does not contain "}:".
func ParseWIP(key string) (queue, id string, ok bool) {
	rest, ok := strings.CutPrefix(key, "troupe:wip:{queue:")
	end := strings.LastIndex(rest, "}:")
	if !ok || end < 0 {
		return "", "", false
	}
	return rest[:end], rest[end+2:], true
}

// Baton is the string that names the idle fetcher which listens for pushes to a
// set of queues; Line the zset of those that wait for it, score = last look in ms.
// set is SetOf the queues.
func Baton(set string) string { return "troupe:baton:" + set }

// Line is the zset beside a Baton.
func Line(set string) string { return "troupe:line:" + set }

// SetOf names a set of queues by a hash of their names, in any order.
func SetOf(queues []string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(slices.Values(queues)) {
		_, _ = fmt.Fprintf(h, "%d:%s", len(name), name)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// Wake is the pub/sub channel on which an idle fetcher is heard to live and gets
// the baton; fetcher is IDENTITY#CAPSULE.
func Wake(fetcher string) string { return "troupe:wake:" + fetcher }

// Pushed remembers the last batch that a client has sent from its buffer.
func Pushed(token string) string { return "troupe:pushed:" + token }

// Flushed remembers the last batch of statistics of a process.
func Flushed(identity string) string { return "troupe:flushed:" + identity }

// Tree is the live supervision tree of a process, as JSON.
func Tree(identity string) string { return "troupe:tree:" + identity }
