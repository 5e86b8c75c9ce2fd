package client

import (
	"context"
	"sync"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/jobctx"
)

// FromContext returns the client of the job that ctx belongs to, for a handler or a middleware that
// pushes: actors.Config.Client, or one that pushes into the Redis of the daemon, through its
// ClientMiddleware. Where testkit runs a job it is the client of that test. It is never nil: with a ctx
// that belongs to no job, and has none by NewContext, each push is a *FieldError that says so.
func FromContext(ctx context.Context) *Client {
	if c, _ := ctx.Value(jobctx.Client{}).(*Client); c != nil {
		return c
	}
	return noJob
}

// NewContext returns a context in which FromContext finds c: for tests, and for code that runs handlers
// by itself.
func NewContext(ctx context.Context, c *Client) context.Context {
	return context.WithValue(ctx, jobctx.Client{}, c)
}

var noJob = func() *Client {
	c := &Client{defaults: builtin(), spans: job.NoSpan, types: new(sync.Map)}
	c.fail(&FieldError{"client.FromContext", "a context that belongs to no job", "that of a handler, or one of client.NewContext"})
	c.plain = &options{fields: c.defaults}
	c.plain.settle(c.err)
	return c
}()
