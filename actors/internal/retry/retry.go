package retry

import (
	"cmp"
	"errors"
	"math"
	"math/bits"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/scores"
)

// Policy is what a daemon is configured to. The zero value is Sidekiq's default.
type Policy struct {
	// MaxRetries applies where neither the payload nor the class has a rule of its
	// own; 0 is the default, below 0 means none: dead at the first failure.
	MaxRetries int

	// Timestamps is the form of failed_at and retried_at.
	Timestamps troupe.Timestamps

	// DeadMax and DeadTimeout bound the dead set when a job is added to it;
	// 0 is the default, below 0 unbounded.
	DeadMax     int
	DeadTimeout time.Duration

	// Rules are those of another system; nil means Sidekiq's.
	Rules *Rules
}

// Failure is a job that failed.
type Failure struct {
	Raw         []byte          // as it was fetched; never modified
	FetchedFrom string          // bare name of the queue it was fetched from
	Payload     *troupe.Payload // Raw parsed, or nil; never modified
	Err         error           // what the handler returned
	Options     troupe.Options  // of the class, ignored if it is unknown
	// UnknownClass: no handler is registered. The job is retried as any other,
	// perhaps by a daemon that has one.
	UnknownClass bool
	// NotAJob: the bytes are no job, or a job of class Troupe::NotAJob that was pushed again.
	// It is dead without a handler hearing of it. Bytes that do not parse are so anyway.
	NotAJob bool
}

// What becomes of a job that has failed. Of one that has not: unfailed.go.
const (
	Retry = job.Retried // Decision.Payload into the retry set
	Dead  = job.Died    // Decision.Payload into the dead set
	Drop  = job.Dropped // nowhere: it is acked
)

// Why a Decision was made.
const (
	becauseFailed    = "failed"            // and has retries left
	becauseExhausted = "retries exhausted" // by count or by time
	becauseKilled    = "killed"            // by the handler or by RetryIn
	becauseDiscarded = "discarded"         // by the handler or by RetryIn
	becauseNoRetry   = "retry disabled"    // the payload or the class says so
	becauseUnwritten = "not writable"      // cannot be written back, see troupe.Payload.Rewritable
	becauseNotAJob   = "not a job"         // no JSON, or no object
)

const notCounted int64 = -1

// Decision is what to do with a failed job.
type Decision struct {
	Outcome job.Outcome // Retry, Dead, Drop, Park or Move
	Reason  string      // for the log, such as "retries exhausted"
	Score   float64     // of the set: seconds since the epoch
	Wait    float64     // until then, in seconds: 0 but for Retry and Park
	Trim    limits.Trim // of the dead set, for Dead
	Queue   string      // bare name, of Move

	// Payload goes into the set: the fetched bytes with the fields of this
	// failure edited in, or the fetched bytes themselves; nil means those, too.
	Payload []byte

	// RetryCount is the field of this failure, 0 at the first, or -1 where Payload is the
	// fetched bytes.
	RetryCount int64

	// RunDeathHandlers asks for the death handlers, with DeathPayload, after the
	// job has been stored or acked.
	RunDeathHandlers bool
	DeathPayload     *troupe.Payload

	// CallbackErrs tell what the class's callbacks did wrong, for the log. They
	// did not change the decision.
	CallbackErrs []error
}

// Decide applies the rules to a failure at now. The jitter is made of random,
// any number of 64 bits.
//
// It calls user code: the methods of the error and the class's callbacks. What
// of that panics has no say. But runtime.Goexit in it ends the caller's
// goroutine, and no decision comes back: who must have one makes a second one
// without the callbacks, in a deferred call, which Goexit allows.
func (pol Policy) Decide(now time.Time, random uint64, in Failure) Decision {
	m := in.Payload
	if in.NotAJob {
		return pol.invalid(now, in.Raw, in.FetchedFrom, in.Err)
	} else if m != nil {
		m = m.Clone()
	} else {
		var err error
		if m, err = troupe.ParsePayload(in.Raw); err != nil {
			return pol.invalid(now, in.Raw, in.FetchedFrom, cmp.Or(in.Err, err))
		}
	}
	if in.UnknownClass {
		in.Options = troupe.Options{}
	}
	if in.Err == nil {
		in.Err = errors.New("failed without an error")
	}
	f := failure{Policy: pol, Failure: in, now: now, m: m}
	_, f.sealed = errchain.As[*troupe.SealedError](in.Err)
	return f.decide(random)
}

// invalid is the decision for bytes from a queue that are no job: dead without
// handlers. JSON that is no object is kept inside of a job that Sidekiq's pages
// can show (see package notajob), all else as it is.
func (pol Policy) invalid(now time.Time, raw []byte, queue string, err error) Decision {
	d := Decision{Outcome: Dead, Reason: becauseNotAJob, RetryCount: notCounted}
	if pol.Rules != nil && pol.Rules.Dead != nil {
		d.Payload = pol.Rules.Dead(raw, queue, err, now)
	} else {
		d.Payload = job.KeepNotAJob(raw, queue, now, pol.Timestamps)
	}
	pol.toDead(&d, now)
	return d
}

// toDead sets what an insertion into the dead set needs.
func (pol Policy) toDead(d *Decision, now time.Time) {
	d.Score = scores.Of(now)
	d.Trim = limits.TrimAt(now, orDefault(pol.DeadMax, limits.DeadMax), orDefault(pol.DeadTimeout, limits.DeadTimeout))
}

// failure is one decision in the making.
type failure struct {
	Policy
	Failure
	now   time.Time
	m     *troupe.Payload // the job with the fields of this failure
	asked troupe.OutcomeError
	count int64 // of this failure, 0 is the first
	// sealed: its arguments could not be opened, so the handler has not run; it is not dropped.
	sealed bool
	mute   bool    // m cannot be written back, whatever its bytes are
	errs   []error // of callbacks
}

func (f *failure) decide(random uint64) Decision {
	asked := job.AskedBy(f.Err)
	f.asked = asked
	if d, ok := f.unfailed(); ok {
		return d
	}
	left, never := f.left()
	if never {
		f.count = notCounted
		if asked.Discard {
			return f.discard()
		}
		return f.drop(becauseNoRetry)
	}
	f.record()
	switch {
	case asked.Discard:
		return f.discard()
	case asked.Kill:
		return f.die(becauseKilled)
	case !left():
		return f.die(becauseExhausted)
	}
	text, ok := f.text() // before the callback has its hands on it
	if !ok {
		return f.die(becauseUnwritten)
	}
	wait, spread := f.wait(random)
	if asked.Delay > 0 {
		wait = asked.Delay.Seconds()
		if asked.Exact {
			spread = 0
		}
	} else {
		switch delay := f.askRetryIn(); {
		case delay == troupe.KillDelay:
			f.restore(text)
			return f.die(becauseKilled)
		case delay == troupe.DiscardDelay:
			f.restore(text)
			return f.discard()
		case delay > 0:
			d, exactly := delay.Wait()
			if wait = d.Seconds(); exactly {
				spread = 0
			}
		}
	}
	wait = min(wait+spread, maxWait)
	return Decision{
		Outcome: Retry, Reason: becauseFailed, Score: toMillis(scores.Of(f.now) + wait), Wait: toMillis(wait),
		Payload: text, RetryCount: f.count, CallbackErrs: f.errs,
	}
}

// left returns what tells, once the failure is recorded, whether the job has retries left.
func (f *failure) left() (left func() bool, never bool) {
	if f.Rules != nil {
		more, never := f.Rules.Retries(f.failed())
		if f.sealed {
			more, never = more || never, false
		}
		return func() bool { return more }, never
	}
	limit, never := f.limit()
	return func() bool { return !f.exhausted(limit) }, never
}

// wait is the wait before the next attempt, and the jitter that is added to any wait.
func (f *failure) wait(random uint64) (wait, spread float64) {
	if f.Rules != nil {
		return f.Rules.Wait(f.failed(), f.count, random), 0
	}
	return backoff(f.count), jitter(random, f.count)
}

// text is the job with the fields of this failure; false if it cannot be
// written back, since a peer would lose it.
func (f *failure) text() ([]byte, bool) {
	text := f.m.Bytes()
	if f.Rules != nil && f.Rules.Destroyed != nil {
		return text, !f.mute && !f.Rules.Destroyed(text)
	}
	return text, !f.mute && f.m.Rewritable() == nil
}

// toMillis rounds a score up to a whole millisecond: no retry is wanted any more exactly,
// and Redis reads so short a number in a fifth of the time.
func toMillis(score float64) float64 { return math.Ceil(score*1000) / 1000 }

// restore undoes what a callback may have done to the job.
func (f *failure) restore(text []byte) {
	if m, err := troupe.ParsePayload(text); err == nil { // it was written here
		f.m = m
	}
}

// die is the end of a job that has no retries left, or is not to have any.
func (f *failure) die(reason string) Decision {
	if discard := f.askExhausted(); discard || !f.keep() {
		return f.drop(reason)
	}
	d := f.drop(reason)
	d.Outcome = Dead
	var ok bool
	if f.Rules != nil && f.Rules.Dead != nil {
		d.Payload = f.Rules.Dead(f.Raw, f.FetchedFrom, f.Err, f.now)
	} else if d.Payload, ok = f.text(); !ok {
		d.Payload, d.RetryCount = f.Raw, notCounted
	}
	f.toDead(&d, f.now)
	return d
}

func (f *failure) discard() Decision {
	f.m.SetInt("discarded_at", f.now.UnixMilli()) // for the handlers' eyes only
	return f.drop(becauseDiscarded)
}

func (f *failure) drop(reason string) Decision {
	return Decision{
		Outcome: Drop, Reason: reason, RetryCount: f.count,
		RunDeathHandlers: true, DeathPayload: f.m, CallbackErrs: f.errs,
	}
}

func orDefault[T comparable](v, standard T) T {
	var zero T
	if v == zero {
		return standard
	}
	return v
}

// maxWait bounds wait and jitter, to keep scores within dates that people and
// programs can print: some 6,000 years. The formula reaches it at the 669th retry.
const maxWait = 2e11

// backoff returns Sidekiq's wait before the next attempt, in seconds and
// without jitter; count is 0 after the first failure.
//
//	count⁴ + 15    15, 16, 31, 96, 271, … about 20 days in all for 25 retries
func backoff(count int64) float64 {
	n := float64(count)
	return n*n*n*n + 15
}

// jitter returns whole seconds in [0, 10·(count+1)), so that jobs that failed
// together do not come back together: the share of the range that random is of
// all 64-bit numbers.
func jitter(random uint64, count int64) float64 {
	whole, _ := bits.Mul64(random, uint64(10*(count+1)))
	return float64(whole)
}
