package run

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/job"
)

// Class is a handler ready to run in one capsule.
type Class struct {
	name      string
	handler   troupe.Handler
	options   troupe.Options
	elsewhere string // the queue of the jobs that are not in options.Take; "" if all are
	iterable  bool
	collect   troupe.Collect // the zero value if each job has a call of its own
	index     int            // of its runs in runs.Counts; the next one is of those in which it is a wrapper
	progress  atomic.Uint64  // what its runs have told to be done
}

// Classes are the handlers of registry with mw around them, by class and alias. Jobs that are not in
// the share of their class go to the queue elsewhere, unless the class names one; base is for classes
// without a RetryIn. A middleware that makes no handler is an error.
func Classes(registry *troupe.Registry, elsewhere string, base func(int, error, *troupe.Payload) troupe.Delay, mw ...troupe.Middleware) (map[string]*Class, error) {
	classes := map[string]*Class{}
	for i, name := range registry.Classes() {
		h, _ := registry.Lookup(name)
		handler, err := h.Chain(mw...)
		if err != nil {
			return nil, err
		}
		class := &Class{name: name, handler: handler, options: h.Options, iterable: h.Iterable, collect: h.Collect, index: 1 + 2*i}
		if class.options.RetryIn == nil {
			class.options.RetryIn = base
		}
		if percent, _ := h.Options.Take.Percent(); percent < 100 {
			class.elsewhere = cmp.Or(h.Options.RestQueue, elsewhere)
		}
		classes[name] = class
	}
	for alias, name := range registry.Aliases() {
		classes[alias] = classes[name]
	}
	return classes, nil
}

// Progressed is how much the runs of the class have told to be done.
func (c *Class) Progressed() uint64 { return c.progress.Load() }

// Collect says how many jobs one call has.
func (c *Class) Collect() troupe.Collect { return c.collect }

// aliased finds the handler of the job's other name, which then is its class.
func (r *Run) aliased() (*Class, bool) {
	if r.wire.Alias == nil {
		return nil, false
	}
	name := r.wire.Alias(r.payload)
	class, ok := r.env.Classes[name]
	if ok {
		r.payload.SetString("class", name)
		r.name = name
	}
	return class, ok
}

// named tells whether the class is one that can have a handler.
func (r *Run) named() bool { return r.name != "" && r.name != job.NotAJob }

// timeout is how long the job may run; 0 is without end.
func (r *Run) timeout() time.Duration {
	if of := r.wire.Timeout; of != nil {
		if t := of(r.payload); t > 0 {
			return t
		}
	}
	return job.Timeout(r.payload, &r.handler.options)
}

// timed is the job's context with a timeout of t.
func (r *Run) timed(t time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeoutCause(&r.job, t, troupe.ErrJobTimeout)
	unheard := context.AfterFunc(ctx, func() {
		if errchain.Is(context.Cause(ctx), troupe.ErrJobTimeout) {
			r.cancelled(troupe.ErrJobTimeout)
		}
	})
	return ctx, func() {
		unheard()
		cancel()
	}
}
