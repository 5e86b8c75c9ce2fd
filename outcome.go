package troupe

import (
	"errors"
	"time"
)

// Causes of a cancelled job context, read with context.Cause.
var (
	// ErrShutdown: the stop deadline has passed. The job is back in its queue, or
	// is left to a rescuer if Redis is away; it will run again. What the handler
	// returns now is not recorded.
	ErrShutdown = errors.New("troupe: shutting down")

	// ErrFenced: this process was taken for dead and another one has put the
	// job back; its result will be refused.
	ErrFenced = errors.New("troupe: fenced, the job was recovered by another process")

	// ErrCancelled: an operator has asked for the job's end (troupe jobs cancel, or
	// actors.Daemon.Cancel). The outcome is the handler's: what it returns decides.
	ErrCancelled = errors.New("troupe: cancelled by an operator")

	// ErrJobTimeout: the class's own Timeout has passed.
	ErrJobTimeout = errors.New("troupe: job timeout")
)

// OutcomeError is what a handler asks for beside plain success or failure. Make one with
// Discard, Kill, RetryIn, RetryExactly, Park or MoveTo; read one with errors.As. Without Discard, Kill, Park and
// Move the job has failed and is retried after Delay.
type OutcomeError struct {
	Discard bool // not stored anywhere; death handlers run
	Kill    bool // straight to the dead set
	Park    bool // run again after Delay, as if it had not run now
	Move    bool // into Queue, as if it had not run now

	Queue string        // bare name, of Move
	Delay time.Duration // of a retry: what to wait, before jitter; of Park: exactly
	Exact bool          // of a retry: without jitter
	Err   error         // the reason; may be nil
}

func (e *OutcomeError) Error() string {
	switch {
	case e.Err != nil:
		return e.Err.Error()
	case e.Discard:
		return "job discarded"
	case e.Kill:
		return "job killed"
	case e.Park:
		return "job parked for " + e.Delay.String()
	case e.Move:
		return "job moved to the queue " + e.Queue
	}
	return "job to be retried in " + e.Delay.String()
}

func (e *OutcomeError) Unwrap() error { return e.Err }

// Discard ends the job for good without storing it: no retry, no dead set.
// It counts as failed and death handlers run. err may be nil.
func Discard(err error) error { return &OutcomeError{Discard: true, Err: err} }

// Kill sends the job straight to the dead set. err may be nil.
func Kill(err error) error { return &OutcomeError{Kill: true, Err: err} }

// RetryIn retries the job after d plus a jitter of 0 to 10·attempt seconds, as by Sidekiq, counted
// like any other retry. err may be nil; d <= 0 means the default delay.
func RetryIn(d time.Duration, err error) error {
	return &OutcomeError{Delay: d, Err: err}
}

// RetryExactly is RetryIn without jitter.
func RetryExactly(d time.Duration, err error) error {
	return &OutcomeError{Delay: d, Exact: true, Err: err}
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
	return &OutcomeError{Park: true, Delay: max(d, 0), Err: err}
}

// MoveTo puts the job into another queue, behind those that wait there: for work that belongs to
// a machine, a release or a language that takes from that queue. It has not failed: no retry is used
// up, it counts neither as processed nor as failed, and no error handler is told. Its field
// "queue" names that queue from then on, and enqueued_at is the time of the move; else its bytes
// stay. It is one step in Redis with the end of this run; on a Cluster two, between which a crash, or
// a reply that is lost, leaves the job in both queues.
//
// A name that is empty, is not UTF-8, is that of the queue itself or ends with ".suspects" is a
// failure that says so, and so is a move of a job of Laravel's, whose queues belong to their
// connection. A panic with this error is a panic.
func MoveTo(queue string) error { return &OutcomeError{Move: true, Queue: queue} }
