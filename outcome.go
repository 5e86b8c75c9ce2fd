package troupe

import (
	"errors"
	"time"
)

// Causes of a cancelled job context, read with context.Cause.
var (
	// ErrShutdown: the stop deadline has passed, the job is already back in its
	// queue and will run again; whatever the handler does now is not recorded.
	ErrShutdown = errors.New("troupe: shutting down")

	// ErrFenced: this process was taken for dead and another one has put the
	// job back; its result will be refused.
	ErrFenced = errors.New("troupe: fenced, the job was recovered by another process")

	// ErrJobTimeout: the class's own Timeout has passed.
	ErrJobTimeout = errors.New("troupe: job timeout")
)

// An Action is what a handler asks for beside plain success or failure.
type Action int

// The actions.
const (
	ActionRetry   Action = iota // the job's own policy decides
	ActionDiscard               // not stored anywhere; death handlers run
	ActionKill                  // straight to the dead set
	ActionRetryIn               // retry after OutcomeError.Delay
	ActionPark                  // run again after OutcomeError.Delay, as if it had not run now
)

// OutcomeError carries an Action up from a handler. Make one with Discard,
// Kill, RetryIn or Park; read one with errors.As.
type OutcomeError struct {
	Action Action
	Delay  time.Duration // for ActionRetryIn: what to wait, before jitter; for ActionPark: exactly
	Err    error         // the reason; may be nil
}

func (e *OutcomeError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	switch e.Action {
	case ActionDiscard:
		return "job discarded"
	case ActionKill:
		return "job killed"
	case ActionPark:
		return "job parked for " + e.Delay.String()
	default:
		return "job to be retried in " + e.Delay.String()
	}
}

func (e *OutcomeError) Unwrap() error { return e.Err }

// Discard ends the job for good without storing it: no retry, no dead set.
// It counts as failed and death handlers run. err may be nil.
func Discard(err error) error { return &OutcomeError{Action: ActionDiscard, Err: err} }

// Kill sends the job straight to the dead set. err may be nil.
func Kill(err error) error { return &OutcomeError{Action: ActionKill, Err: err} }

// RetryIn retries the job after d plus jitter, counted like any other retry.
// err may be nil; d <= 0 means the default delay.
func RetryIn(d time.Duration, err error) error {
	return &OutcomeError{Action: ActionRetryIn, Delay: d, Err: err}
}

// Park puts the job off by d: it goes into the schedule set as it is and from
// there to the end of its queue. It has not failed: no retry is used up, it
// counts neither as processed nor as failed, and no error handler is told. For a
// middleware that finds the moment wrong: a dependency is down, a limit reached.
//
// d <= 0 means due at once, by way of the schedule set all the same. There is no
// jitter, and no limit to how often a job is parked. A panic with this error is
// a panic. Jobs of exactly the same bytes (so without a jid) are one in a set.
// err, the reason, may be nil.
func Park(d time.Duration, err error) error {
	return &OutcomeError{Action: ActionPark, Delay: max(d, 0), Err: err}
}
