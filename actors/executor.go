package actors

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/joblog"
	"github.com/troupehq/troupe/retry"
	"github.com/troupehq/troupe/supervisor"
)

// class is a handler ready to run in one capsule.
type class struct {
	name    string
	handler troupe.Handler
	options troupe.ClassOptions
	runs    *beat.Runs // nil if there are no metrics

	iterable bool
}

func (c *capsule) buildClasses() {
	c.classes = map[string]*class{}
	mw := append(append([]troupe.Middleware(nil), c.d.cfg.Middleware...), c.cfg.Middleware...)
	for _, name := range c.d.cfg.Registry.Classes() {
		e, _ := c.d.cfg.Registry.Lookup(name)
		c.classes[name] = &class{
			name: name, handler: e.Chain(mw...), options: e.Options, iterable: e.Iterable, runs: c.d.beats.metrics.Runs(name),
		}
	}
}

// execution is one run of one job. It is not an actor: user code may block,
// panic, call Goexit or never return, and the actors stay answerable.
type execution struct {
	c       *capsule
	slot    int
	w       *work
	started time.Time
	ended   time.Time
	elapsed time.Duration // of the run, set when it has ended

	payload    *troupe.Payload // nil if the bytes do not parse; the handler may have edited it
	jid, class string          // of the payload as it was fetched
	wrapped    string          // likewise
	handler    *class          // nil if unknown
	log        *zerolog.Logger // at the job's own level
	err        error
	crash      *supervisor.JobCrash
	returned   bool // the handler
	concluded  bool // the job's fate was seen into Redis, or is on its way
	goBroken   bool // a goroutine of the job panicked

	job   *jobContext // nil before the handler
	freed atomic.Bool // the slot has been given back already
	over  atomic.Bool // the handler and its goroutines have ended
	deaf  atomic.Bool // listed as such

	iteration *iteration // nil if the job is not iterable
}

// run is the goroutine of slot i: it runs w and then, as long as it can, the
// next unit that waits, without a detour by the slot's actor. It ends when the
// slot is idle, when the capsule is quiet, and with a job that panicked: then
// the actor takes over.
func (c *capsule) run(i int, w *work) {
	deepen()
	defer func() {
		c.d.jobs.Add(-1) // after the slot: a stop looks at the slots when no job is left
		if c.d.hushed.Load() {
			c.d.ringLauncher()
		}
	}()
	pprof.SetGoroutineLabels(c.slots[i].labels)
	for w != nil {
		w = c.execute(i, w)
	}
}

// execute runs the job of slot i to its end: perform, settle, then free the slot.
// It returns what the slot is to run next. Everything after the handler is
// deferred, since a Goexit runs nothing else.
func (c *capsule) execute(i int, w *work) (next *work) {
	e := &execution{c: c, slot: i, w: w, started: time.Now(), log: &c.d.log}
	defer func() {
		if v := recover(); v != nil { // a bug of ours: the unit stays in its private place
			e.concluded = false
			c.d.root().Send(c.slotPID(i), inject{reason: supervisor.NewCrash(v, debug.Stack())})
		}
		next = e.free()
	}()
	defer e.conclude()
	defer e.gathered()
	defer e.caught()
	e.perform()
	e.returned = true
	return nil
}

// free gives the slot back, once, and returns the unit that it goes on with.
func (e *execution) free() *work {
	if e.freed.Swap(true) {
		return nil
	}
	if e.ended.IsZero() {
		e.ended = time.Now()
	}
	return e.c.finish(e.slot, e.crash, e.concluded, e.ended)
}

func (e *execution) perform() {
	if e.payload, e.err = troupe.ParsePayload(e.w.unit.Payload); e.err != nil {
		return
	}
	p := e.payload
	e.log = jobLogger(e.log, p)
	name := p.HandlerClass()
	e.jid, e.class, e.wrapped = p.JID(), p.DisplayClass(), p.Wrapped()
	job := &jobContext{e: e, w: e.w, base: e.log, info: troupe.JobInfo{
		JID: e.jid, Class: name, Queue: e.w.unit.Queue, Capsule: e.c.cfg.Name, Attempt: p.Failures() + 1,
	}}
	e.job = job
	defer job.Cancel(nil)
	e.w.describe(e.class, e.jid, e.started, job)
	if !e.c.ledger.isOpen(e.w) { // taken from us between fetch and start
		e.payload = nil
		return
	}
	e.c.busy.Add(1)
	defer e.c.busy.Add(-1)
	var ok bool
	if e.handler, ok = e.c.classes[name]; !ok {
		e.err = &troupe.UnknownClassError{Class: name}
		return
	}
	ctx := context.Context(job)
	if t := e.handler.options.Timeout; t > 0 {
		var stop func()
		ctx, stop = e.timed(t)
		defer stop()
	}
	if e.handler.iterable {
		ctx = e.iterable(ctx, e.jid)
	}
	if e.c.d.events.wanted.Load() {
		e.c.d.events.publish(JobStarted{e.event()})
	}
	if line := e.log.Debug(); line.Enabled() {
		line.Str("jid", e.jid).Str("class", e.class).Str("queue", e.w.unit.Queue).
			Str("capsule", e.c.cfg.Name).Int("attempt", p.Failures()+1).Msg("job started")
	}
	e.err = e.handler.handler.Perform(ctx, p)
	if g := job.started(); g != nil { // before the context ends with this function
		e.err, e.goBroken = g.Wait(e.err)
	}
}

// timed is the job's context with a timeout of t. It is a function of its own
// because its closure would have every job's context escape.
func (e *execution) timed(t time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeoutCause(e.job, t, troupe.ErrJobTimeout)
	unheard := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), troupe.ErrJobTimeout) {
			e.cancelled(troupe.ErrJobTimeout)
		}
	})
	return ctx, func() {
		unheard()
		cancel()
	}
}

// gathered waits for the goroutines of a handler that has not returned, and
// makes a panic of one the processor's.
func (e *execution) gathered() {
	if !e.returned && e.job != nil {
		if g := e.job.started(); g != nil {
			_, _ = g.Wait(nil) // the handler's own panic came first
		}
	}
	if e.goBroken {
		stack := debug.Stack()
		if p, ok := errors.AsType[*troupe.PanicError](e.err); ok {
			stack = p.Stack
		}
		e.crash = &supervisor.JobCrash{Queue: e.w.unit.Queue, Err: e.err, Stack: stack, Class: e.class, JID: e.jid}
	}
}

// caught turns a panic or Goexit of the handler into the job's error, and into
// the reason with which its processor will crash once the job is settled.
func (e *execution) caught() {
	v := recover()
	switch {
	case v != nil:
		e.err = &troupe.PanicError{Value: v, Stack: debug.Stack()}
	case !e.returned:
		e.err = &troupe.GoexitError{Stack: debug.Stack()}
	default:
		e.err = readable(e.err)
		return
	}
	e.crash = &supervisor.JobCrash{Queue: e.w.unit.Queue, Err: e.err, Stack: debug.Stack(), Class: e.class, JID: e.jid}
}

// conclude decides the unit's fate and sees it into Redis.
func (e *execution) conclude() {
	if e.over.Store(true); e.deaf.Load() {
		e.c.heard(e)
	}
	e.ended = time.Now()
	e.decide()
	e.concluded = e.returned
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
	parked := retry.IsPark(e.err)
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
		joblog.Err(e.line(zerolog.WarnLevel, "late"), e.err).Msg("job ended after its fate was decided; the result is refused")
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
		c.settler.ack(e.w)
		e.line(zerolog.InfoLevel, "done").Msg("job done")
		return
	}
	e.fail()
}

// invalid buries bytes that are no job.
func (e *execution) invalid() {
	c := e.c
	if !c.ledger.take(e.w) {
		return
	}
	e.w.own()
	dec := c.d.policy.Invalid(time.Now(), e.w.unit.Payload)
	if !e.settle(dec) {
		return
	}
	line := c.d.log.Error().Str("actor", c.processorPath(e.slot)).Str("capsule", c.cfg.Name).Str("queue", e.w.unit.Queue).
		Int("bytes", len(e.w.unit.Payload)).Str("outcome", "dead")
	joblog.Err(line, e.err).Msg("not a job: moved to the dead set as it is")
	c.d.tellErrorHandlers(e.err, ErrorContext{Actor: c.processorPath(e.slot), Message: "parsing a job", Queue: e.w.unit.Queue})
}

// fail stores the failure, then tells of it. Deciding is the policy's, but it
// reads the user's error: where that panics or leaves the goroutine, the job is
// decided without the class's callbacks, in a deferred call, which both allow.
func (e *execution) fail() {
	in := retry.Failure{
		Raw: e.w.unit.Payload, FetchedFrom: e.w.unit.Queue, Err: e.err,
		UnknownClass: e.handler == nil,
	}
	if e.handler != nil {
		in.Options = e.handler.options
	}
	decided := false
	defer func() {
		if decided {
			return
		}
		if v := recover(); v != nil {
			e.callbackFailed(&troupe.PanicError{Value: v, Stack: debug.Stack()})
		} else {
			e.callbackFailed(&troupe.GoexitError{Stack: debug.Stack()})
		}
		in.Options.RetryIn, in.Options.Exhausted = nil, nil
		e.failed(e.c.d.policy.Decide(time.Now(), jitter.Rand(e.c.d.identity, e.jid), in))
	}()
	dec := e.c.d.policy.Decide(time.Now(), jitter.Rand(e.c.d.identity, e.jid), in)
	decided = true
	e.failed(dec)
}

// fetched parses the job anew: what is stored and told of a failure is what was
// fetched, not what the handler has made of its payload.
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
	level := zerolog.WarnLevel
	if dec.Action == retry.Dead {
		level = zerolog.ErrorLevel
	}
	line := e.line(level, dec.Action.String())
	if line.Enabled() {
		line = joblog.Err(line.Str("error_class", troupe.ErrorClass(e.err)), e.err)
		if dec.Action == retry.Retry {
			line = line.Float64("retry_in_s", dec.Score-troupe.Score(time.Now()))
		}
	}
	told := func() {
		line.Msg("job failed")
		if c.d.events.wanted.Load() {
			c.d.events.publish(e.outcome(dec))
		}
	}
	// What the user's handlers take is the slot's time.
	if len(c.d.cfg.ErrorHandlers) == 0 && !dec.RunDeathHandlers {
		e.store(dec, told)
		return
	}
	if !e.settle(dec) {
		return
	}
	told()
	c.d.tellErrorHandlers(e.err, ErrorContext{
		Actor: c.processorPath(e.slot), Message: "running a job", Payload: e.fetched(), Queue: e.w.unit.Queue,
	})
	if dec.RunDeathHandlers {
		c.d.bury(dec.DeathPayload, e.err)
	}
}

func (e *execution) callbackFailed(err error) {
	line := e.c.d.log.Error().Str("actor", e.c.processorPath(e.slot)).Str("jid", e.jid)
	joblog.Err(line, err).Msg("a retry callback failed")
}

func (e *execution) event() JobEvent {
	return JobEvent{At: time.Now(), Actor: e.c.processorPath(e.slot), Capsule: e.c.cfg.Name, Job: e.w.ref()}
}

func (e *execution) result() Event {
	if e.err == nil {
		return JobDone{e.event(), e.elapsed}
	}
	return JobFailed{e.event(), e.elapsed, e.err, e.crash != nil}
}

func (e *execution) outcome(dec retry.Decision) Event {
	switch dec.Action {
	case retry.Retry:
		return JobRetried{e.event(), time.UnixMicro(int64(dec.Score * 1e6))}
	case retry.Dead:
		return JobDied{e.event()}
	default:
		return JobDropped{e.event()}
	}
}

// move is what the decision asks of the fetcher.
func (e *execution) move(dec retry.Decision) fetch.Move {
	m := fetch.Move{Unit: e.w.unit, Score: dec.Score, Payload: dec.Payload}
	switch dec.Action {
	case retry.Retry:
		m.To = fetch.ToRetry
	case retry.Dead:
		m.To = fetch.ToDead
		m.Trim = fetch.Trim{Before: dec.TrimBefore, Max: dec.TrimMax}
	case retry.Park:
		m.To = fetch.ToSchedule
	case retry.Drop: // an ack, and no move
	}
	return m
}

// settle writes the decision; false when it did not come into Redis by our hand.
func (e *execution) settle(dec retry.Decision) bool {
	if dec.Action == retry.Drop {
		e.c.settler.ack(e.w)
		return true
	}
	return e.await(e.move(dec))
}

// store writes the decision and calls told once it is in Redis. The slot does
// not wait for that, unless its job has crashed or too many are on their way.
func (e *execution) store(dec retry.Decision, told func()) {
	if dec.Action != retry.Drop && e.crash == nil {
		pm := &pendingMove{w: e.w, move: e.move(dec)}
		pm.then = func() {
			defer func() { // a hook of the user's logger, say
				if v := recover(); v != nil {
					e.c.d.root().Send(e.c.slotPID(e.slot), inject{reason: supervisor.NewCrash(v, debug.Stack())})
				}
			}()
			if e.stored(pm) {
				told()
			}
		}
		if e.c.settler.entrust(pm) {
			return
		}
	}
	if e.settle(dec) {
		told()
	}
}

// await sees m into Redis; false when that was not our hand.
func (e *execution) await(m fetch.Move) bool {
	c := e.c
	pm := &pendingMove{w: e.w, move: m, done: make(chan struct{}), parked: make(chan struct{})}
	c.settler.submit(pm)
	select {
	case <-pm.done:
	case <-pm.parked:
		// Redis refuses this very move: other jobs need not wait for it. How many
		// may be held back like this is bounded.
		if c.heldBack.Add(1) <= int64(heldBackFactor*len(c.slots)) {
			e.free()
		}
		<-pm.done
		c.heldBack.Add(-1)
	}
	return e.stored(pm)
}

// stored tells whether a move that is over came into Redis by our hand.
func (e *execution) stored(pm *pendingMove) bool {
	if pm.err == nil && pm.result == fetch.Moved {
		return true
	}
	line := e.line(zerolog.ErrorLevel, "unsettled")
	if pm.err != nil {
		line = line.AnErr("settle_error", pm.err)
	}
	joblog.Err(line, e.err).Msg("the outcome of a job could not be stored")
	return false
}

// heldBackFactor times the concurrency is how many failed jobs may wait without
// a slot for a key that refuses them.
const heldBackFactor = 10

// readable makes sure that err can be read: an Error method that panics is a
// fault of the job's error, not of the processor that logs it.
func readable(err error) (safe error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			safe = &unreadableError{err: err, class: fmt.Sprintf("%T", err)}
		}
	}()
	_ = err.Error()
	return err
}

// unreadableError stands for an error whose Error method panics.
type unreadableError struct {
	err   error
	class string
}

func (e *unreadableError) Error() string {
	return "an error of type " + e.class + " whose Error method panics"
}
func (e *unreadableError) ErrorClass() string { return strings.TrimPrefix(e.class, "*") }
