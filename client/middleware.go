package client

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
)

// PushFunc takes a job on its way to Redis. What it leaves in p is what is
// stored, in the form in which Ruby would write it; a job that is pushed again
// keeps its bytes but for what was edited. At that point p has class, args, queue, retry, jid and created_at,
// and at (seconds since the epoch) if the job is scheduled.
type PushFunc func(ctx context.Context, p *troupe.Payload) error

// Middleware wraps a PushFunc; it is called once, when the client is made, and
// the function it returns, which must not be nil, is called for each job, concurrently. next accepts
// the job; the push itself follows after the whole chain has returned, so that
// jobs of a bulk travel together. next must be given a context derived from
// the one received.
//
// A job passes through again whenever it is pushed again: by the daemon when a
// scheduled job or a retry is due, by Sidekiq's own processes and pages. So
// keep what an earlier pass has left in the payload.
type Middleware func(next PushFunc) PushFunc

// passed is where the end of the chain puts the job it was given.
type passed struct{ p *troupe.Payload }

type passedKey struct{}

func accept(ctx context.Context, p *troupe.Payload) error {
	slot, ok := ctx.Value(passedKey{}).(*passed)
	if !ok {
		return errors.New("next was called with a context that does not come from the push")
	}
	slot.p = p
	return nil
}

// chain wraps accept in mw; the result is nil without any. An error names one that is nil, or makes nil.
func chain(mw []Middleware) (PushFunc, error) {
	if len(mw) == 0 {
		return nil, nil
	}
	next := PushFunc(accept)
	for i, m := range slices.Backward(mw) {
		name := fmt.Sprintf("WithMiddleware[%d]", i)
		if m == nil {
			return nil, &FieldError{name, "nil", "a Middleware"}
		}
		if next = m(next); next == nil {
			return nil, &FieldError{name, "a Middleware that returns nil", "one that returns a PushFunc"}
		}
	}
	return next, nil
}

// through sends p through the middleware and returns what came out of it. A push that was stopped is
// ErrStopped, or an error that wraps it; other errors and panics become a *MiddlewareError.
func (c *Client) through(ctx context.Context, p *troupe.Payload) (out *troupe.Payload, err error) {
	if c.chain == nil {
		return p, nil
	}
	defer func() {
		if v := recover(); v != nil {
			out, err = nil, &MiddlewareError{&troupe.PanicError{Value: v, Stack: debug.Stack()}}
		}
	}()
	var slot passed
	err = c.chain(context.WithValue(ctx, passedKey{}, &slot), p)
	if errchain.Is(err, ErrStopped) {
		return nil, err
	}
	if err != nil {
		return nil, &MiddlewareError{err}
	}
	if slot.p == nil {
		return nil, ErrStopped
	}
	return slot.p, nil
}
