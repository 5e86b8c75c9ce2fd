package troupe

import (
	"context"
	"slices"
)

// Handler performs one job. A nil error means done; any other is an outcome
// (see Discard, Kill, RetryIn, Park), by default a retry. ctx is cancelled, with a
// cause, at the stop deadline, when fenced, and at the class's timeout.
// The payload is the handler's own copy: what it changes there is seen by
// inner middleware and the handler, never by the stored retry. Once the handler has
// returned it must not be changed any more.
type Handler interface {
	Perform(ctx context.Context, p *Payload) error
}

// HandlerFunc makes a Handler of a function.
type HandlerFunc func(ctx context.Context, p *Payload) error

// Perform calls f.
func (f HandlerFunc) Perform(ctx context.Context, p *Payload) error { return f(ctx, p) }

// Middleware wraps a Handler. It is called once per class when the daemon is
// built; the handler it returns is called for each job, concurrently. Not
// calling next and returning nil means: job done.
type Middleware func(next Handler) Handler

// chain wraps h in mw; the first one is the outermost.
func chain(h Handler, mw ...Middleware) Handler {
	for _, wrap := range slices.Backward(mw) {
		h = wrap(h)
	}
	return h
}
