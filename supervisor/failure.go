package supervisor

import (
	"fmt"
	"sync/atomic"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/words"
)

// Directive is what a decider answers.
type Directive int

// What a supervisor can do about a failure.
const (
	Restart  Directive = iota // a new instance, same path and mailbox, after the backoff; spends the budget
	Stop                      // end the actor; its supervisor hears of it
	Resume                    // drop the message, go on with the same instance; a supervisor that gave up is restarted
	Escalate                  // the supervisor itself fails, with this failure as the cause; see DefaultDecider
)

func (d Directive) String() string {
	switch d {
	case Restart:
		return "restart"
	case Stop:
		return "stop"
	case Resume:
		return "resume"
	case Escalate:
		return "escalate"
	}
	return fmt.Sprintf("directive(%d)", int(d))
}

// Failure is one crash of an actor, as a decider sees it.
type Failure struct {
	Path     string // in the tree, like launcher/default/processor-3
	Role     string // launcher, manager, fetcher, processor, poller, heartbeat, rescuer
	Capsule  string // "" outside a capsule
	Reason   error  // why; a panic value that is no error is a *troupe.PanicError
	Stack    []byte // of the panic, nil where there is none
	Restarts int    // restarts that this supervisor has spent of its budget within the period, this one not counted

	// Job is the job that panicked, nil if the actor itself failed.
	Job *JobCrash

	// The next two tell a job at fault from an actor at fault: the same class on many
	// processors of this capsule, or many classes on one. Both count what this supervisor saw
	// within the period before this crash, 100 at most.
	JobCrashes   int // of this job's class, on any processor of this capsule; 0 if Job is nil
	ActorCrashes int // of this actor, whatever the reason

	// GaveUp is how often this child, a supervisor, has given up within the hour
	// before this: whether a restart of it helps. Reason is an *Exceeded then.
	GaveUp int
}

// maxGaveUp is how often within an hour a supervisor may give up before
// DefaultDecider takes it that no restart helps it.
const maxGaveUp = 5

// DefaultDecider restarts what has failed. A supervisor that gave up because its
// budget is spent is restarted as well, five times an hour; one that was told to,
// by a decider or a strategy that escalates, is not: the failure goes on up and
// ends the daemon.
func DefaultDecider(f Failure) Directive {
	e, _ := f.Reason.(*Exceeded) //nolint:errorlint // the child's own reason
	if e != nil && (e.Spec == "" || f.GaveUp >= maxGaveUp) {
		return Escalate
	}
	return Restart
}

// JobCrash is the reason with which a processor crashes after the job that it
// ran panicked or called runtime.Goexit. The job is already settled as a
// failure when the actor crashes.
type JobCrash struct {
	Class, JID, Queue string
	Err               error // *troupe.PanicError
	Stack             []byte
}

func (c *JobCrash) Error() string {
	return fmt.Sprintf("job %s %s: %v", words.Text(c.Class), words.Text(c.JID), c.Err)
}

func (c *JobCrash) Unwrap() error { return c.Err }

// Crash is what an actor's panic looks like on its way to the strategy: the
// panic value with the stack of the panicking goroutine. A supervisor that gave up
// because of a job (Exceeded) has failed itself: its Crash has no Job, and spends a
// budget.
type Crash struct {
	Reason error
	Stack  []byte
	Job    *JobCrash // the job's crash that Reason is; nil for any other
	Order  uint64    // numbers the crashes of the process as they come; 0 unknown
}

func (c *Crash) Error() string { return c.Reason.Error() }
func (c *Crash) Unwrap() error { return c.Reason }

// jobOf returns reason as a *JobCrash, nil if it is something else: the chain below it
// is of other actors.
func jobOf(reason error) *JobCrash {
	j, _ := reason.(*JobCrash) //nolint:errorlint // see above
	return j
}

// order numbers crashes across the process: a clock cannot tell which of two came first.
var order atomic.Uint64

// NewCrash makes a Crash of a recovered panic value.
func NewCrash(value any, stack []byte) *Crash {
	c := &Crash{Stack: stack}
	switch v := value.(type) {
	case *Crash:
		return v
	case *JobCrash:
		c.Reason, c.Stack = v, v.Stack
	case error:
		c.Reason = v
	default:
		c.Reason = &troupe.PanicError{Value: value, Stack: stack}
	}
	c.Job, c.Order = jobOf(c.Reason), order.Add(1)
	return c
}

// Exceeded is the reason with which a supervisor fails when its budget is spent
// or its decider said Escalate; Cause is the child's own failure.
type Exceeded struct {
	Path     string // of the child that failed last
	Restarts int    // in the period
	Spec     string // the budget in words; "" when a decider escalated
	Cause    error
}

func (e *Exceeded) Error() string {
	if e.Spec == "" {
		return fmt.Sprintf("escalated: %s failed: %v", e.Path, e.Cause)
	}
	return fmt.Sprintf("restart budget spent (%s): %s failed: %v", e.Spec, e.Path, e.Cause)
}

func (e *Exceeded) Unwrap() error { return e.Cause }
