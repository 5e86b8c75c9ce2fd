package actors

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unsafe"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/cut"
	"github.com/troupehq/troupe/internal/joblog"
	"github.com/troupehq/troupe/internal/outcome"
	"github.com/troupehq/troupe/retry"
)

// conclude decides the unit's outcome and sees it into Redis.
func (e *execution) conclude() {
	if e.over.Store(true); e.listed.Load() {
		e.c.ended(e)
	}
	e.ended = time.Now()
	e.decide()
	e.concluded = e.returned && e.read
}

func (e *execution) decide() {
	c := e.c
	e.elapsed = e.ended.Sub(e.started)
	if e.payload == nil && e.err == nil { // never started
		return
	}
	if e.payload == nil {
		e.invalid()
		return
	}
	parked := outcome.IsPark(e.err)
	interrupted := !parked && isInterrupted(e.err)
	if !parked {
		e.measure(e.err == nil || interrupted)
		c.processed.Add(1)
		c.totalProcessed.Add(1)
		if e.err != nil {
			c.failed.Add(1)
			c.totalFailed.Add(1)
		}
	}
	if !c.ledger.take(e.w) {
		if c.d.events.wanted.Load() {
			c.d.events.publish(JobLate{e.event(), e.elapsed, e.err})
		}
		joblog.Err(e.line(zerolog.WarnLevel, "late"), e.err).Msg("job ended after its outcome was decided elsewhere; the result is refused")
		return
	}
	e.w.own()
	e.keepPlace()
	switch {
	case parked:
		e.park()
		return
	case interrupted:
		e.toBack()
		return
	}
	if c.d.events.wanted.Load() {
		c.d.events.publish(e.result())
	}
	if e.err == nil {
		e.acked = true // by free
		e.line(zerolog.InfoLevel, "done").Msg("job done")
		return
	}
	e.fail()
}

// invalid moves bytes that are no job to the dead set.
func (e *execution) invalid() {
	c := e.c
	if !c.ledger.take(e.w) {
		return
	}
	e.w.own()
	dec := c.d.policy.Decide(time.Now(), 0, retry.Failure{Raw: e.w.unit.Payload, FetchedFrom: e.w.unit.Queue, NotAJob: true})
	if !e.settle(dec) {
		return
	}
	line := c.env.Log.Error().Str("actor", c.processorPath(e.k.s.index)).Str("capsule", c.cfg.Name).Str("queue", cut.Text(e.w.unit.Queue)).
		Int("bytes", len(e.w.unit.Payload)).Str("outcome", "dead")
	joblog.Err(line, e.err).Msg("not a job: moved to the dead set")
	c.d.tellErrorHandlers(e.err, ErrorContext{Actor: c.processorPath(e.k.s.index), Message: "parsing a job", Queue: e.w.unit.Queue})
}

// fail stores the failure, then tells of it. Deciding is the policy's, but it
// reads the user's error and calls the class's callbacks: where one of them
// leaves the goroutine, or the error panics, the job is decided without the
// callbacks, in a deferred call, which both allow.
func (e *execution) fail() {
	in := retry.Failure{
		Raw: e.w.unit.Payload, FetchedFrom: e.w.unit.Queue, Err: e.err,
		UnknownClass: e.handler == nil,
	}
	if e.untouched() {
		in.Payload = e.payload
	}
	if e.handler != nil {
		in.Options = e.handler.options
	}
	random := e.c.env.Seed.Uint64(e.jid, e.ended)
	decided := false
	defer func() {
		if decided {
			return
		}
		var err error = &troupe.GoexitError{Stack: debug.Stack()}
		if v := recover(); v != nil {
			err = &troupe.PanicError{Value: v, Stack: debug.Stack()}
		}
		e.callbackFailed(fmt.Errorf("callbacks of class %q, or its error: %w", cut.Text(e.class), err))
		in.Payload, in.Options.RetryIn, in.Options.Exhausted = nil, nil, nil
		e.failed(e.c.d.policy.Decide(e.ended, random, in))
	}()
	dec := e.c.d.policy.Decide(e.ended, random, in)
	decided = true
	e.failed(dec)
}

// untouched tells whether the payload that the user's code was given is as it was
// fetched. The code has returned.
func (e *execution) untouched() bool {
	if e.payload.Edited() {
		return false
	}
	now, was := e.payload.Bytes(), e.w.unit.Payload
	return len(now) == len(was) && unsafe.SliceData(now) == unsafe.SliceData(was)
}

// fetched parses the job anew, for those who may edit it.
func (e *execution) fetched() *troupe.Payload {
	p, _ := troupe.ParsePayload(e.w.unit.Payload) // it did before
	return p
}

// failed carries out the decision about a failure.
func (e *execution) failed(dec retry.Decision) {
	c := e.c
	for _, err := range dec.CallbackErrs {
		e.callbackFailed(err)
	}
	// What the user's handlers take is the slot's time.
	if len(c.d.cfg.ErrorHandlers) == 0 && !dec.RunDeathHandlers {
		e.store(dec)
		return
	}
	if !e.settle(dec) {
		return
	}
	e.tell(dec.Action, dec.Score, dec.Wait)
	c.d.tellErrorHandlers(e.err, ErrorContext{
		Actor: c.processorPath(e.k.s.index), Message: "running a job", Payload: e.fetched(), Queue: e.w.unit.Queue,
	})
	if dec.RunDeathHandlers {
		c.d.tellDeathHandlers(dec.DeathPayload, e.err)
	}
}

// tell logs and publishes a decision about a failure or a park, once it has been
// carried out: a line that were begun before would be kept meanwhile.
func (e *execution) tell(action retry.Action, score, wait float64) {
	level, text := zerolog.WarnLevel, "job failed"
	switch action {
	case retry.Dead:
		level = zerolog.ErrorLevel
	case retry.Park:
		level, text = zerolog.InfoLevel, "job parked"
	case retry.Retry, retry.Drop:
	}
	if line := e.line(level, action.String()); line.Enabled() {
		if action == retry.Park {
			line = joblog.Seconds(line, "parked_s", wait)
		} else {
			line = line.Str("error_class", troupe.ErrorClass(e.err))
		}
		if line = joblog.Err(line, e.err); action == retry.Retry {
			line = joblog.Seconds(line, "retry_in_s", wait)
		}
		line.Msg(text)
	}
	if e.c.d.events.wanted.Load() {
		e.c.d.events.publish(e.outcome(action, score))
	}
}

func (e *execution) callbackFailed(err error) {
	line := e.c.env.Log.Error().Str("actor", e.c.processorPath(e.k.s.index)).Str("jid", cut.Text(e.jid))
	joblog.Err(line, err).Msg("a retry callback failed")
}

func (e *execution) event() JobEvent {
	return JobEvent{At: time.Now(), Actor: e.c.processorPath(e.k.s.index), Capsule: e.c.cfg.Name, Job: e.w.ref()}
}

func (e *execution) result() Event {
	if e.err == nil {
		return JobDone{e.event(), e.elapsed}
	}
	return JobFailed{e.event(), e.elapsed, e.err, e.crash != nil}
}

func (e *execution) outcome(action retry.Action, score float64) Event {
	switch at := time.UnixMicro(int64(score * 1e6)); action {
	case retry.Retry:
		return JobRetried{e.event(), at}
	case retry.Park:
		return JobParked{e.event(), at, e.err}
	case retry.Dead:
		return JobDied{e.event()}
	default:
		return JobDropped{e.event()}
	}
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

func (e *unreadableError) Error() string {
	return "an error of type " + e.class + " whose Error method does not return"
}

func (e *unreadableError) ErrorClass() string { return strings.TrimPrefix(e.class, "*") }

// park puts the job off, as its handler asked. It has not failed: no callback
// of the class, no error handler and no death handler hears of it.
func (e *execution) park() {
	e.store(e.c.d.policy.Decide(time.Now(), 0, retry.Failure{ // no jitter
		Raw: e.w.unit.Payload, FetchedFrom: e.w.unit.Queue, Err: e.err,
	}))
}

// jobLogger is log at the level that the job's field "log_level" asks for. A
// logger that was switched off stays so.
func jobLogger(log *zerolog.Logger, p *troupe.Payload) *zerolog.Logger {
	level, ok := joblog.Level(p)
	if !ok || log.GetLevel() == zerolog.Disabled {
		return log
	}
	own := log.Level(level)
	return &own
}

// line begins a log line of the job. Arguments are never in it.
func (e *execution) line(level zerolog.Level, outcome string) *zerolog.Event {
	ev := e.log.WithLevel(level) //nolint:zerologlint // the caller sends it
	if !ev.Enabled() {
		return ev
	}
	ev = ev.Str("jid", cut.Text(e.jid)).Str("class", cut.Text(e.class)).
		Str("queue", cut.Text(e.w.unit.Queue)).Str("capsule", e.c.cfg.Name)
	return joblog.Seconds(ev, "elapsed_s", e.elapsed.Round(time.Microsecond).Seconds()).Str("outcome", outcome)
}
