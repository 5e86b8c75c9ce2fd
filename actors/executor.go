package actors

import (
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/cut"
	"github.com/troupehq/troupe/internal/notajob"
	"github.com/troupehq/troupe/supervisor"
)

// class is a handler ready to run in one capsule.
type class struct {
	name    string
	handler troupe.Handler
	options troupe.Options
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
	k       *worker
	w       *work
	started time.Time
	ended   time.Time
	elapsed time.Duration // of the run, set when it has ended

	payload    *troupe.Payload // nil if the bytes do not parse; the handler may have edited it
	jid, class string          // of the payload as it was fetched
	wrapped    string          // likewise
	name       string          // likewise: the class whose handler runs it
	attempt    int             // likewise
	handler    *class          // nil if unknown
	log        *zerolog.Logger // at the job's own level
	err        error
	crash      *supervisor.JobCrash
	returned   bool // the handler
	read       bool // its error can be
	concluded  bool // the job's outcome is in Redis, or is on its way
	acked      bool // its ack goes with the slot
	goBroken   bool // a goroutine of the job panicked

	job    jobContext
	freed  atomic.Bool // the job has left its slot
	over   atomic.Bool // the handler and its goroutines have ended
	listed atomic.Bool // as unresponsive

	iteration *iteration // nil if the job is not iterable
}

// execute runs a job to its end: perform, settle, then free the slot. It tells whether
// the goroutine goes on with another job, and what time it is then; zero if that is to be
// looked up. Everything after the handler is deferred, since a Goexit runs nothing else.
func (c *capsule) execute(k *worker, w *work, now time.Time) (then time.Time, again bool) {
	e := &w.run
	e.c, e.k, e.w, e.started, e.log = c, k, w, now, &c.env.Log
	defer func() {
		if v := recover(); v != nil { // a bug of ours: the unit stays in its private place
			e.concluded = false
			c.env.System.Panicked(c.processorPath(k.s.index), v)
		}
		then, again = e.done()
	}()
	defer e.conclude()
	defer e.gathered()
	defer e.caught()
	e.perform()
	e.returned = true
	return time.Time{}, false
}

// done ends the execution: the ack, if the job is to have one, and the slot. For most
// jobs nothing lies between the end of one and the start of the next: then one look at
// the clock does for both.
func (e *execution) done() (now time.Time, again bool) {
	var ack *work
	if e.acked {
		ack = e.w
		e.payload = nil // the units of a fetch stay until the last of them has ended
	}
	if e.freed.Swap(true) {
		if ack != nil {
			e.c.settler.ack(ack)
		}
		e.c.busy.Add(-1)
		return time.Time{}, false
	}
	if e.ended.IsZero() {
		e.ended = time.Now()
	}
	yielded := e.c.finish(e.k, e.crash, ack, e.ended)
	if !yielded && e.acked && !e.told() {
		now = e.ended
	}
	return now, e.concluded && e.crash == nil
}

// told tells whether a log or a subscriber, either of which may block, was told of
// the end of a job that was done.
func (e *execution) told() bool {
	return e.c.d.events.wanted.Load() || e.log.GetLevel() <= zerolog.InfoLevel
}

// free gives the slot to another worker before the end of the execution.
func (e *execution) free() {
	if !e.freed.Swap(true) {
		e.c.replace(e.k)
	}
}

func (e *execution) perform() {
	if e.payload, e.err = troupe.ParsePayload(e.w.unit.Payload); e.err != nil {
		return
	}
	p := e.payload
	e.log = jobLogger(e.log, p)
	e.jid, e.class, e.wrapped, e.name, e.attempt = p.JID(), p.DisplayClass(), p.Wrapped(), p.HandlerClass(), p.Failures()+1
	e.job.e = e
	defer e.job.Cancel(nil)
	e.w.began.Store(true)
	if !e.c.ledger.isOpen(e.w) { // taken from us between fetch and start
		e.payload = nil
		return
	}
	var ok bool
	if e.handler, ok = e.c.classes[e.name]; !ok {
		if e.name == notajob.Class {
			e.payload, e.err = nil, notajob.Again()
			return
		}
		e.err = &troupe.UnknownClassError{Class: e.name}
		return
	}
	ctx := context.Context(&e.job)
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
		line.Str("jid", cut.Text(e.jid)).Str("class", cut.Text(e.class)).Str("queue", cut.Text(e.w.unit.Queue)).
			Str("capsule", e.c.cfg.Name).Int("attempt", e.attempt).Msg("job started")
	}
	e.err = e.handler.handler.Perform(ctx, p)
	if g := e.job.started(); g != nil { // before the context ends with this function
		e.err, e.goBroken = g.Wait(e.err)
	}
}

// timed is the job's context with a timeout of t.
func (e *execution) timed(t time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeoutCause(&e.job, t, troupe.ErrJobTimeout)
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
	if !e.returned {
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
		readable(&e.err)
		e.read = true
		return
	}
	e.crash = &supervisor.JobCrash{Queue: e.w.unit.Queue, Err: e.err, Stack: debug.Stack(), Class: e.class, JID: e.jid}
}
