package retry

import (
	"time"

	"github.com/troupehq/troupe"
)

// Rules are how a system other than Sidekiq retries its jobs. Dead and Destroyed may be nil.
type Rules struct {
	// Retries tells of a job that has failed whether it has retries left, or is not to be
	// retried at all: then it is dropped. The job is as it was fetched.
	Retries func(in Failed) (left, never bool)
	// Record edits the fields of the failure into the job and returns how often it was retried: 0
	// at its first failure.
	Record func(in Failed) (count int64)
	// Wait returns the seconds before the next try, with a jitter that is made of random, any
	// number of 64 bits.
	Wait func(in Failed, count int64, random uint64) float64
	// Dead makes what stands in the dead set for a job, fetched from queue, whose bytes are raw: of
	// bytes that are no job, too. nil: the job as it was recorded.
	Dead func(raw []byte, queue string, err error, now time.Time) []byte
	// Destroyed tells of the text of a job whether a process of the system would destroy it: it is
	// dead at its first failure. nil: what Ruby cannot write, see troupe.Payload.Rewritable.
	Destroyed func(text []byte) bool
	// Stays says that a job is not moved to another queue (troupe.MoveTo).
	Stays bool
}

// Failed is a failure as Rules see it.
type Failed struct {
	Payload *troupe.Payload // the job
	Queue   string          // bare name of the queue it was fetched from
	Err     error           // what the handler returned
	Message string          // its text, valid UTF-8
	Delayed bool            // the handler asked for the wait: troupe.RetryIn
	Now     time.Time
}
