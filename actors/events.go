package actors

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/fetch"
)

// Event is something that happened in a daemon; the types below are all there
// are. docs/events.md has them as a table.
type Event interface{ event() }

// JobEvent is what every event about a job carries.
type JobEvent struct {
	At      time.Time
	Actor   string // path of the processor
	Capsule string
	Job     JobRef
}

// The life of a job.
type (
	// JobStarted says: the handler (with its middleware) is about to run.
	JobStarted struct{ JobEvent }
	// JobDone says: it returned nil; the ack is on its way.
	JobDone struct {
		JobEvent
		Elapsed time.Duration
	}
	// JobFailed says: it returned an error, panicked or called Goexit. One of
	// JobRetried, JobDied or JobDropped follows once the outcome is in Redis.
	JobFailed struct {
		JobEvent
		Elapsed time.Duration
		Err     error
		Crashed bool // panic or Goexit
	}
	// JobLate says: it ended after its outcome was decided elsewhere (requeued at the
	// deadline, or fenced); the result is refused.
	JobLate struct {
		JobEvent
		Elapsed time.Duration
		Err     error
	}
	// JobRetried says: it is in the retry set, due at Due.
	JobRetried struct {
		JobEvent
		Due time.Time
	}
	// JobDied says: it is in the dead set.
	JobDied struct{ JobEvent }
	// JobDropped says: it failed for good and is stored nowhere (discarded, or never to be retried).
	JobDropped struct{ JobEvent }
	// JobInterrupted says: an iterable job has saved its place and is at the back of
	// its queue, to go on in another run. It follows no JobFailed.
	JobInterrupted struct {
		JobEvent
		Elapsed time.Duration
	}
	// JobUnresponsive says: its context was cancelled, and it does not end.
	JobUnresponsive struct {
		JobEvent
		Unresponsive Unresponsive
	}
	// JobCancelled says: an operator asked for its end, and its context has ended with
	// troupe.ErrCancelled. Its handler decides what becomes of it.
	JobCancelled struct{ JobEvent }
	// JobParked says: it asked to be put off (troupe.Park) and is in the schedule
	// set, due at Until. It has not failed; Err is what it returned.
	JobParked struct {
		JobEvent
		Until time.Time
		Err   error
	}
)

// JobMoved says: it asked for another queue (troupe.MoveTo) and is in that. It has not failed.
type JobMoved struct {
	JobEvent
	To string // bare name of the queue
}

// ActorEvent is what every event about an actor carries.
type ActorEvent struct {
	At   time.Time
	Path string
	Role string
}

// The life of an actor.
type (
	// ActorStarted says: its first life begins.
	ActorStarted struct{ ActorEvent }
	// ActorCrashed says: it panicked and waits for its strategy.
	ActorCrashed struct {
		ActorEvent
		Err   error
		Stack []byte
	}
	// ActorRestarted says: a new incarnation runs, or one that replaces an ended actor.
	ActorRestarted struct {
		ActorEvent
		Restarts int
	}
	// ActorResumed says: after a crash the same incarnation goes on; only the
	// message is lost.
	ActorResumed struct{ ActorEvent }
	// ActorStopped says: it has ended.
	ActorStopped struct{ ActorEvent }
	// ActorEscalated says: as a supervisor it gave up; Err has the chain of causes.
	ActorEscalated struct {
		ActorEvent
		Err error
	}
	// StrategyBlocked says: this supervisor waits for its strategy, which was asked
	// at Since and does not return.
	StrategyBlocked struct {
		ActorEvent
		Strategy string // its Go type
		Since    time.Time
	}
	// StrategyReturned says: after StrategyBlocked, it has returned.
	StrategyReturned struct {
		ActorEvent
		Strategy string
		After    time.Duration
	}
	// StrategyOverruled says: the strategy of this supervisor, or its decider,
	// panicked or was too slow, and the default decided.
	StrategyOverruled struct {
		ActorEvent
		Strategy string // its Go type, or "decider"
		Err      error
	}
)

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
func (EventsDropped) event()     {}

func (e CapsuleConfigured) text() string {
	return fmt.Sprintf("%d processors, queues %s", e.Concurrency, strings.Join(e.Queues, ", "))
}

// eventBuffer is how many events may wait for a subscriber.
const eventBuffer = 4096

// Subscribe delivers every event from now on to f, until the returned function
// is called or the daemon has ended. After cancel no call begins; one may still
// run.
//
// f is called for each event, in order, one at a time, in a goroutine of its own.
// A slow subscriber loses events and gets an EventsDropped that counts them. One
// that panics goes on with the next event. Neither delays the daemon. A stop waits
// a few seconds for a subscriber that still takes events, not for one whose call
// lasts more than 1 s.
func (d *Daemon) Subscribe(f func(Event)) (cancel func()) { return d.events.subscribe(f) }

// actorEvent publishes what happened to an actor.
func (d *Daemon) actorEvent(e supervised.Event) {
	a := ActorEvent{At: e.At, Path: e.Path, Role: e.Role}
	switch e.What {
	case supervised.ActorStarted:
		d.events.publish(ActorStarted{a})
	case supervised.ActorCrashed:
		d.events.publish(ActorCrashed{a, e.Err, e.Stack})
	case supervised.ActorRestarted:
		d.events.publish(ActorRestarted{a, e.Restarts})
	case supervised.ActorResumed:
		d.events.publish(ActorResumed{a})
	case supervised.ActorStopped:
		d.events.publish(ActorStopped{a})
	case supervised.ActorEscalated:
		d.events.publish(ActorEscalated{a, e.Err})
	case supervised.StrategyBlocked:
		d.events.publish(StrategyBlocked{a, e.Strategy, e.Since})
	case supervised.StrategyReturned:
		d.events.publish(StrategyReturned{a, e.Strategy, e.After})
	case supervised.StrategyOverruled:
		d.events.publish(StrategyOverruled{a, e.Strategy, e.Err})
	}
}

// publish makes an event of what happened to a job.
func (c *capsule) publish(e run.Event) {
	j := JobEvent{At: e.At, Actor: e.Actor, Capsule: c.cfg.Name, Job: JobRef(e.Job)}
	var ev Event
	switch e.What {
	case run.Started:
		ev = JobStarted{j}
	case run.Done:
		ev = JobDone{j, e.Elapsed}
	case run.Failed:
		ev = JobFailed{j, e.Elapsed, e.Err, e.Crashed}
	case run.Late:
		ev = JobLate{j, e.Elapsed, e.Err}
	case run.Retried:
		ev = JobRetried{j, e.Due}
	case run.Died:
		ev = JobDied{j}
	case run.Dropped:
		ev = JobDropped{j}
	case run.Interrupted:
		ev = JobInterrupted{j, e.Elapsed}
	case run.Unresponsive:
		ev = JobUnresponsive{j, unresponsiveOf(e.Trouble)}
	case run.Parked:
		ev = JobParked{j, e.Due, e.Err}
	case run.Moved:
		ev = JobMoved{j, e.To}
	}
	c.events.publish(ev)
}
