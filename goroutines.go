package troupe

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
)

// Go runs f in a goroutine of the job that ctx belongs to. What the go statement
// cannot do: a panic in f, or a runtime.Goexit, fails this job as a panic of its
// handler would, and nothing else; every other job of the process goes on.
//
// The job has ended when its handler has returned and all its goroutines have:
// only then is it acked or retried, and its slot free. The first failure, of a
// goroutine or the handler, cancels the job's context with that failure as the
// cause; the others should then end. The job's error is all of theirs, joined,
// without those that only report this cancellation; a panic comes alone. An
// outcome (Discard, Kill, RetryIn, Park) counts, whoever returns it.
//
// A goroutine that does not end keeps its job from ending: that is then unresponsive, or
// given up by a stop, as if the handler had not returned. After the job's end Go
// starts nothing.
//
// With a ctx that belongs to no job, Go is the go statement, and an error of f
// is lost.
func Go(ctx context.Context, f func(ctx context.Context) error) {
	g := GoroutinesFrom(ctx)
	if g == nil {
		go func() { _ = f(ctx) }()
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.running++
		go g.run(ctx, f)
	}
}

// Goroutines are those of one run of a job. Handlers use Go; this is for what
// runs handlers: a daemon, a testkit.
type Goroutines struct {
	cancel func(cause error)

	mu      sync.Mutex
	running int
	closed  bool
	errs    []error
	fatal   error         // the first panic or Goexit
	idle    chan struct{} // closed when running is 0; nil if nobody waits
}

type goroutinesKey struct{}

// NewGoroutines makes the goroutines of a run whose context cancel ends; it is
// called with the first failure.
func NewGoroutines(cancel func(cause error)) *Goroutines { return &Goroutines{cancel: cancel} }

// WithGoroutines returns a context in which Go runs goroutines of the result.
func WithGoroutines(ctx context.Context) (context.Context, *Goroutines) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := NewGoroutines(cancel)
	return context.WithValue(ctx, goroutinesKey{}, g), g
}

// GoroutinesFrom returns those of the job that ctx belongs to; nil outside of one.
func GoroutinesFrom(ctx context.Context) *Goroutines {
	g, _ := ctx.Value(goroutinesKey{}).(*Goroutines)
	return g
}

func (g *Goroutines) run(ctx context.Context, f func(context.Context) error) {
	returned := false
	var err error
	defer func() {
		v := recover()
		switch {
		case v != nil:
			err = &PanicError{Value: v, Stack: debug.Stack()}
		case !returned:
			err = &GoexitError{Stack: debug.Stack()}
		}
		g.failed(err, !returned)
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.running--; g.running == 0 && g.idle != nil {
			close(g.idle)
			g.idle = nil
		}
	}()
	err = f(ctx)
	returned = true
}

// failed notes an error; the first cancels the rest.
func (g *Goroutines) failed(err error, fatal bool) {
	if err == nil {
		return
	}
	g.mu.Lock()
	first := len(g.errs) == 0
	if fatal && g.fatal == nil {
		g.fatal = err
	}
	if first || fatal || !errors.Is(err, context.Canceled) && !errors.Is(err, g.errs[0]) {
		g.errs = append(g.errs, err)
	}
	g.mu.Unlock()
	if first {
		g.cancel(err)
	}
}

// Wait waits for the end of all goroutines and lets no more begin; err is what
// the handler has returned. It returns the job's error. A panic or Goexit of a
// goroutine comes alone, as *PanicError or *GoexitError, and fatal is true.
func (g *Goroutines) Wait(err error) (joined error, fatal bool) {
	g.failed(err, false)
	for {
		g.mu.Lock()
		if g.running == 0 {
			break
		}
		if g.idle == nil {
			g.idle = make(chan struct{})
		}
		idle := g.idle
		g.mu.Unlock()
		<-idle
	}
	defer g.mu.Unlock()
	g.closed = true
	switch {
	case g.fatal != nil:
		return g.fatal, true
	case len(g.errs) == 1:
		return g.errs[0], false
	}
	return errors.Join(g.errs...), false
}
