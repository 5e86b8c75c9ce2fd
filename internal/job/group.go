// This file runs the goroutines that a job has started with troupe.Go. The daemon and
// testkit put a Group into the context of each job.

package job

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/jobctx"
)

// Group are the goroutines of one run of a job.
type Group struct {
	cancel func(cause error)

	mu      sync.Mutex
	running int
	closed  bool
	errs    []error
	fatal   error         // the first panic or Goexit
	idle    chan struct{} // closed when running is 0; nil if nobody waits
}

// NewGroup makes the group of a run whose context cancel ends; it is called with the first
// failure.
func NewGroup(cancel func(cause error)) *Group { return &Group{cancel: cancel} }

// WithGroup returns a context in which troupe.Go runs goroutines of the result.
func WithGroup(ctx context.Context) (context.Context, *Group) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := NewGroup(cancel)
	return context.WithValue(ctx, jobctx.Goroutines{}, g), g
}

// Go runs f in a goroutine of the group, unless the job has ended.
func (g *Group) Go(ctx context.Context, f func(ctx context.Context) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.running++
		go g.run(ctx, f)
	}
}

func (g *Group) run(ctx context.Context, f func(context.Context) error) {
	returned := false
	var err error
	defer func() {
		v := recover()
		switch {
		case v != nil:
			err = &troupe.PanicError{Value: v, Stack: debug.Stack()}
		case !returned:
			err = &troupe.PanicError{Goexit: true, Stack: debug.Stack()}
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
func (g *Group) failed(err error, fatal bool) {
	if err == nil {
		return
	}
	g.mu.Lock()
	first := len(g.errs) == 0
	if fatal && g.fatal == nil {
		g.fatal = err
	}
	if first || fatal || !errchain.Is(err, context.Canceled) && !errchain.Is(err, g.errs[0]) {
		g.errs = append(g.errs, err)
	}
	g.mu.Unlock()
	if first {
		g.cancel(err)
	}
}

// Wait waits for the end of all goroutines and lets no more begin; err is what
// the handler has returned. It returns the job's error. A panic or Goexit of a
// goroutine comes alone, as *PanicError, and fatal is true.
func (g *Group) Wait(err error) (joined error, fatal bool) {
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
