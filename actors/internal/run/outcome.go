package run

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unsafe"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/words"
)

// conclude decides the unit's outcome and sees it into Redis.
func (r *Run) conclude() {
	if r.over.Store(true); r.listed.Load() {
		r.env.responded(r)
	}
	r.ended = time.Now()
	r.job.told.Load().Close()
	r.decide()
	r.job.kept.Load().End(false)
	r.concluded = r.returned && r.read
}

func (r *Run) decide() {
	r.elapsed = r.ended.Sub(r.started)
	if r.payload == nil && r.err == nil { // never started
		r.handed = true
		return
	}
	if r.payload == nil {
		r.invalid()
		return
	}
	asked := job.AskedBy(r.err)
	if asked.Move && r.sent == job.Done {
		if err := r.env.Policy.Moves(r.w.Unit.Queue, asked.Queue); err != nil {
			r.err, asked = err, troupe.OutcomeError{}
		}
	}
	interrupted := !asked.Park && !asked.Move && job.IsInterrupted(r.err)
	took := r.take()
	r.count(r.outcome(asked, interrupted), !took)
	if !took {
		r.publish(event.JobLate{JobEvent: r.now(), Elapsed: r.elapsed, Err: r.err})
		logs.Err(r.line(zerolog.WarnLevel, "late"), r.err).Msg("job ended after its outcome was decided elsewhere; the result is refused")
		return
	}
	r.keepPlace()
	switch {
	case r.sent == job.Expired:
		r.expire()
		return
	case r.sent == job.CalledOff:
		r.callOff()
		return
	case r.sent == job.Held:
		r.heldBy()
		return
	case r.sent != job.Done:
		r.send()
		return
	case asked.Park, asked.Move:
		r.unfailed()
		return
	case interrupted:
		r.toBack()
		return
	}
	if r.err == nil {
		if effects := r.effects(r.pushes(), job.BatchDone, r.doneAs(), r.ended); effects != nil {
			r.doneWith(effects)
			return
		}
		r.acked, r.handed = true, true // by done
		r.tellDone(0, nil)
		return
	}
	r.publish(r.failure())
	r.fail()
}

// take makes the outcome this run's, unless it was decided elsewhere.
func (r *Run) take() bool {
	r.mine = r.env.Ledger.Take(r.w)
	r.handed = !r.mine
	if r.mine {
		r.w.ByItself.Store(true)
	}
	return r.mine
}

// invalid moves bytes that are no job to the dead set.
func (r *Run) invalid() {
	if !r.take() {
		return
	}
	dec := r.env.Policy.Decide(time.Now(), 0, retry.Failure{Raw: r.w.Unit.Payload, FetchedFrom: r.w.Unit.Queue, NotAJob: true, Err: r.err})
	if !r.settle(dec) {
		return
	}
	line := r.env.Log.Error().Str("actor", r.slot.Path()).Str("capsule", r.env.Capsule).Str("queue", words.Text(r.w.Unit.Queue)).
		Int("bytes", len(r.w.Unit.Payload)).Str("outcome", "dead")
	logs.Err(line, r.err).Msg("not a job: moved to the dead set")
	r.onError(Failure{Message: "parsing a job"})
}

// fail stores the failure, then tells of it. Deciding is the policy's, but it
// reads the user's error and calls the class's callbacks: where one of them
// leaves the goroutine, or the error panics, the job is decided without the
// callbacks, in a deferred call, which both allow.
func (r *Run) fail() {
	in := retry.Failure{
		Raw: r.w.Unit.Payload, FetchedFrom: r.w.Unit.Queue, Err: r.err,
		UnknownClass: r.handler == nil,
	}
	if r.untouched() {
		in.Payload = r.payload
	}
	if r.handler != nil {
		in.Options = r.handler.options
	}
	random := r.env.Seed.Uint64(r.jid, r.ended)
	decided := false
	defer func() {
		if decided {
			return
		}
		var err error = &troupe.PanicError{Goexit: true, Stack: debug.Stack()}
		if v := recover(); v != nil {
			err = &troupe.PanicError{Value: v, Stack: debug.Stack()}
		}
		r.callbackFailed(fmt.Errorf("callbacks of class %q, or its error: %w", words.Text(r.class), err))
		in.Payload, in.Options.RetryIn, in.Options.Exhausted = nil, nil, nil
		r.failed(r.env.Policy.Decide(r.ended, random, in))
	}()
	dec := r.env.Policy.Decide(r.ended, random, in)
	decided = true
	r.failed(dec)
}

// outcome returns how the run has ended.
func (r *Run) outcome(asked troupe.OutcomeError, interrupted bool) job.Outcome {
	switch {
	case r.sent != job.Done:
		return r.sent
	case asked.Park:
		return job.Parked
	case asked.Move:
		return job.Moved
	case interrupted:
		return job.Interrupted
	case r.err == nil:
		return job.Done
	case r.crash != nil:
		return job.Panic
	}
	return job.Error
}

// count counts the run. late tells that the job's outcome was decided elsewhere.
func (r *Run) count(o job.Outcome, late bool) {
	class := 0 // Sidekiq's page does not show a class without a handler
	if h := r.handler; h != nil {
		class = h.index
		// It shows what is wrapped, also by a wrapper that has a handler itself, and of AnyClass and of an alias
		// the class of the job.
		name := cmp.Or(r.wrapped, r.name)
		if name != h.name {
			r.env.Metrics.CountAs(name, o, r.busy())
			class++
		}
	}
	r.slot.Runs().Count(class, o, late, r.busy())
}

// untouched tells whether the payload that the user's code was given is as it was
// fetched: the bytes of an edited one are made anew. The code has returned.
func (r *Run) untouched() bool {
	now, was := r.payload.Bytes(), r.w.Unit.Payload
	return len(now) == len(was) && unsafe.SliceData(now) == unsafe.SliceData(was)
}

// fetched parses the job anew, for those who may edit it.
func (r *Run) fetched() *troupe.Payload {
	p, _ := r.parse() // it did before
	return p
}

// failed carries out the decision about a failure.
func (r *Run) failed(dec retry.Decision) {
	for _, err := range dec.CallbackErrs {
		r.callbackFailed(err)
	}
	// What the user's handlers take is the slot's time.
	if r.env.OnError == nil && !dec.RunDeathHandlers {
		r.store(dec)
		return
	}
	if !r.settle(dec) {
		return
	}
	r.tell(dec)
	r.onError(Failure{Message: "running a job", Payload: r.fetched()})
	if dec.RunDeathHandlers {
		p := dec.DeathPayload
		if r.wire.Parse != nil {
			if own, err := r.wire.Parse(p.Bytes(), r.w.Unit.Queue); err == nil {
				p = own
			}
		}
		r.env.OnDeath(p, r.err)
	}
}

func (r *Run) onError(in Failure) {
	if r.env.OnError != nil {
		in.Actor, in.Queue = r.slot.Path(), r.w.Unit.Queue
		r.env.OnError(r.err, in)
	}
}

// failure is the event of a run that has failed.
func (r *Run) failure() event.Event {
	return event.JobFailed{JobEvent: r.now(), Elapsed: r.elapsed, Err: r.err, Crashed: r.crash != nil}
}

// tell logs and publishes a decision about a failure, a park or a move, once it has been
// carried out: a line that were begun before would be kept meanwhile.
func (r *Run) tell(dec retry.Decision) {
	o, now := dec.Outcome, r.now()
	due := time.UnixMicro(int64(dec.Score * 1e6))
	level, text := o.Line()
	line := r.line(zerolog.Level(level), o.Logged())
	var e event.Event
	switch o { // the others are no decisions
	case job.Retried:
		line = logs.Seconds(r.errorOn(line), "retry_in_s", dec.Wait)
		e = event.JobRetried{JobEvent: now, Due: due}
	case job.Died:
		line = r.errorOn(line)
		e = event.JobDied{JobEvent: now}
	case job.Parked:
		line = logs.Err(logs.Seconds(line, "parked_s", dec.Wait), r.err)
		e = event.JobParked{JobEvent: now, Until: due, Err: r.err}
	case job.Moved:
		line = line.Str("to", words.Text(dec.Queue))
		e = event.JobMoved{JobEvent: now, To: dec.Queue}
	default:
		line = r.errorOn(line)
		e = event.JobDropped{JobEvent: now}
	}
	line.Msg(text)
	r.publish(e)
}

// errorOn adds the error to a line.
func (r *Run) errorOn(line *zerolog.Event) *zerolog.Event {
	if !line.Enabled() {
		return line
	}
	return logs.Err(line.Str("error_class", troupe.ErrorClass(r.err)), r.err)
}

// callbackFailed comes before the job is settled: no log hook may end the run here.
func (r *Run) callbackFailed(err error) {
	supervised.Tell(func() {
		line := r.env.Log.Error().Str("actor", r.slot.Path()).Str("jid", words.Text(r.jid))
		logs.Err(line, err).Msg("a retry callback failed")
	})
}

// readable makes sure that the error can be read: an Error method that panics or leaves
// the goroutine is a fault of the job's error, not of the processor that logs it.
func readable(err *error) {
	if *err == nil {
		return
	}
	read := false
	defer func() {
		if v := recover(); v != nil || !read {
			*err = &unreadableError{err: *err, class: fmt.Sprintf("%T", *err)}
		}
	}()
	_ = (*err).Error()
	read = true
}

// unreadableError stands for an error whose Error method does not return.
type unreadableError struct {
	err   error
	class string
}

func (r *unreadableError) Error() string {
	return "an error of type " + r.class + " whose Error method does not return"
}

func (r *unreadableError) ErrorClass() string { return strings.TrimPrefix(r.class, "*") }

// unfailed puts the job off or into another queue, as its handler asked. It has not failed: no
// callback of the class, no error handler and no death handler hears of it.
func (r *Run) unfailed() {
	r.store(r.env.Policy.Decide(time.Now(), 0, retry.Failure{ // no jitter
		Raw: r.w.Unit.Payload, FetchedFrom: r.w.Unit.Queue, Err: r.err,
	}))
}

// jobLogger is log at the level that the job's field "log_level" asks for. A
// logger that was switched off stays so.
func jobLogger(log *zerolog.Logger, p *troupe.Payload) *zerolog.Logger {
	level, ok := logs.Level(p)
	if !ok || log.GetLevel() == zerolog.Disabled {
		return log
	}
	own := log.Level(level)
	return &own
}

// line begins a log line of the job. Arguments are never in it.
func (r *Run) line(level zerolog.Level, outcome string) *zerolog.Event {
	ev := r.log.WithLevel(level) //nolint:zerologlint // the caller sends it
	if !ev.Enabled() {
		return ev
	}
	ev = ev.Str("jid", words.Text(r.jid)).Str("class", words.Text(r.class)).
		Str("queue", words.Text(r.w.Unit.Queue)).Str("capsule", r.env.Capsule)
	if h := r.handler; h != nil && h.name != r.name {
		ev = ev.Str("handler", h.name)
	}
	return logs.Seconds(ev, "elapsed_s", r.elapsed.Round(time.Microsecond).Seconds()).Str("outcome", outcome)
}
