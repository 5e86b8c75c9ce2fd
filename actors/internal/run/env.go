// Package run runs one job: its context, the middleware and the handler, the outcome that a
// return, a panic or a Goexit leads to, the place that an iterable job keeps, and what is
// done about a job that does not end.
package run

import (
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/supervisor"
)

// Env is what the runs of a capsule share. Its fields do not change.
type Env struct {
	*env.Env
	Capsule string
	Path    string // of the manager
	Classes map[string]*Class
	Client  *client.Client // of client.FromContext
	Ledger  *work.Ledger
	Settler *work.Settler
	Policy  retry.Policy
	Metrics *beat.Metrics
	Traffic *runs.Traffic

	// Unknown is the queue to which jobs without a handler are handed over, if it is not "". Leave puts
	// them back at the end of their queue instead. With neither they fail.
	Unknown string
	Leave   bool

	// Reaches tells whether the effects of a job of this queue may be on a key; if not, why.
	Reaches func(queue, key string) error
	Cluster bool // Redis is one
	// Cancelled tells whether a batch was cancelled, as far as this process knows.
	Cancelled func(batch string) bool

	Limited     bool                      // some class or queue has limits
	QueueLimits map[string][]troupe.Limit // Config.QueueLimits
	SlotLife    time.Duration             // that a slot of a limit lives without a sign of life
	MaxAge      time.Duration             // of what a limit has answered, when its job starts
	OnHeld      func(rule string)         // counts a job that a limit holds
	OnProgress  func()                    // a run has told its progress for the first time; must not block

	Crypt           *job.Crypt // opens last arguments; nil without keys
	Timestamps      troupe.Timestamps
	DoneLevel       zerolog.Level // Config.DoneLevel
	Grace           time.Duration // between the cancellation of a context and a job that is unresponsive
	MaxIteration    time.Duration // Config.MaxIterationRuntime
	MaxHeldBack     func() int64  // how many failed jobs may wait without a slot for a key that refuses them
	MaxUnresponsive int
	Quiet           func() bool // nothing is fetched any more

	OnError func(err error, in Failure)        // the error handlers; nil if there are none
	OnDeath func(p *troupe.Payload, err error) // the death handlers
	Wanted  *atomic.Bool                       // somebody listens to events
	Publish func(event.Event)                  // must not block

	foreign      foreign
	Unkept       atomic.Uint64 // how many results Redis did not take
	heldBack     atomic.Int64
	unresponsive unresponsive
	vain         vain
}

// Slot is where a run takes place, one of the Concurrency of a capsule.
type Slot interface {
	// Path is that of its processor.
	Path() string
	// Runs are the counts of what has run there.
	Runs() *runs.Counts
	// Finish frees the slot at the end of its run. ack is the run's item if it is to be
	// acked, crash what its processor crashes of. It tells whether others have run in between.
	Finish(ack *work.Item, crash *supervisor.JobCrash, now time.Time) (yielded bool)
	// Pause keeps the slot idle for d after this run.
	Pause(d time.Duration)
	// Replace gives the slot to another run before this one has ended.
	Replace()
	// Left notes the end of a run that was replaced, or collected.
	Left()
	// Collect adds a job to the next call of its class, and has it leave the slot if it has not.
	Collect(m *Member, leave bool)
}

// Failure says where an error happened.
type Failure struct {
	Actor, Message, Queue string
	Payload               *troupe.Payload // nil if the bytes are no job
}

// publish tells of e, unless it is of those that only listeners want and nobody listens.
func (r *Run) publish(e event.Event) {
	if !r.env.Wanted.Load() {
		switch e := e.(type) {
		case event.JobStarted, event.JobDone, event.JobInterrupted, event.JobHeld, event.JobCalledOff:
			return
		case event.JobHandedOver:
			if !e.First {
				return
			}
		case event.JobLeft:
			if !e.First {
				return
			}
		}
	}
	r.env.Publish(e)
}

// now is what an event of this job and of now carries.
func (r *Run) now() event.JobEvent {
	return event.JobEvent{At: time.Now(), Actor: r.slot.Path(), Capsule: r.env.Capsule, Job: r.w.Job.Ref()}
}
