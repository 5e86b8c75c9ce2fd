// Package event has what happens in a daemon: the life of jobs, of actors and of the daemon
// itself. actors.Daemon.Subscribe delivers it, in order; a type switch tells what it is.
//
// An event does not change once it was delivered. docs/events.md has all of them as a table.
package event

import (
	"time"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/tree"
)

// Event is something that happened in a daemon; the types of this package are all there
// are.
type Event interface{ event() }

// JobRef names a job.
//
//	JID     string
//	Class   string
//	Queue   string
//	Started time.Time
type JobRef = tree.JobRef

// Unresponsive is a job that does not end although its context was cancelled.
//
//	JobRef
//	Since    time.Time // its context was cancelled
//	Cause    string
//	Stack    string // of its goroutine, when it was found to be so
//	Replaced bool   // its slot is another job's
type Unresponsive = tree.Unresponsive

// The life of the daemon.
type (
	// QuietBegan says: no job is fetched any more.
	QuietBegan struct{ At time.Time }
	// CapsuleQuiet says: this capsule alone fetches nothing any more, since a strategy
	// has stopped its fetcher, its last processor or its manager, or since it has reached one of
	// its Limits. It stays so.
	CapsuleQuiet struct {
		At      time.Time
		Capsule string
		Err     error // who was stopped, and why, or which limit it was
	}
	// CapsuleConfigured says: the capsule has other processors or queues from now on.
	CapsuleConfigured struct {
		At          time.Time
		Capsule     string
		Concurrency int
		Queues      []string
	}
	// StopBegan says: running jobs have until Deadline.
	StopBegan struct{ At, Deadline time.Time }
	// JobsRequeued says: these were put back into their queues at the deadline.
	JobsRequeued struct {
		At      time.Time
		Capsule string
		Jobs    []JobRef
	}
	// JobsAbandoned says: these are unresponsive and were given up.
	JobsAbandoned struct {
		At   time.Time
		Jobs []JobRef
	}
	// Fenced says: another process has taken over what this capsule was running.
	Fenced struct {
		At      time.Time
		Capsule string
		Jobs    []JobRef // cancelled with troupe.ErrFenced
		Refused int      // settlements that came too late
	}
	// JobsRescued says: this process put back the jobs of dead ones.
	JobsRescued struct {
		At        time.Time
		Jobs      int
		Processes []string // identities of the dead
	}
	// JobRerouted says: this process put a job of a dead one elsewhere than into its
	// queue: by a policy, or because it is a suspect.
	JobRerouted struct {
		At         time.Time
		Job        JobRef
		Recoveries []fetch.Recovery // the last is the one that was handled
		To         string           // name of a queue, or schedule
		Suspect    bool             // to the suspects of its queue
	}
	// JobPoisoned says: this process moved a job of a dead one into the dead set. Err
	// is a *troupe.RecoveredError.
	JobPoisoned struct {
		At         time.Time
		Job        JobRef
		Recoveries []fetch.Recovery
		Err        error
	}
	// OutboxChanged says: the relay of an outbox in this process leads, waits for another one that leads, or cannot work.
	OutboxChanged struct {
		At     time.Time
		Outbox string // its name
		State  string // leads, waits, no_database, no_tables or no_redis
		Err    error  // why it cannot
	}
	// EventsDropped says: the subscriber was too slow; N events before this one were
	// not delivered to it.
	EventsDropped struct {
		At time.Time
		N  int
	}
)

func (JobEvent) event()          {}
func (ActorEvent) event()        {}
func (QuietBegan) event()        {}
func (CapsuleQuiet) event()      {}
func (CapsuleConfigured) event() {}
func (StopBegan) event()         {}
func (JobsRequeued) event()      {}
func (JobsAbandoned) event()     {}
func (Fenced) event()            {}
func (JobsRescued) event()       {}
func (JobRerouted) event()       {}
func (JobPoisoned) event()       {}
func (OutboxChanged) event()     {}
func (EventsDropped) event()     {}
