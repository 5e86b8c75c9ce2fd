package actors

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
)

// jobContext is what the context of a handler is made from. troupe.JobInfoFrom
// finds the job's info in it and zerolog.Ctx the job's logger. It costs next to
// nothing until somebody asks: the logger is made when it is wanted, and so is
// a context of the standard library inside, when Done or a value that this one
// has not is asked for; then context.Cause, context.AfterFunc and contexts made
// from it work as with any other. All methods may be called from any goroutine,
// also after the job's end.
type jobContext struct {
	info troupe.JobInfo
	e    *execution
	w    *work
	base *zerolog.Logger

	mu        sync.Mutex
	log       *zerolog.Logger
	inner     context.Context
	cancel    context.CancelCauseFunc
	cancelled bool
	cause     error
	group     *troupe.Goroutines
}

// Cancel ends the context with cause, once; nil means context.Canceled.
func (c *jobContext) Cancel(cause error) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancelled {
		return false
	}
	c.cancelled, c.cause = true, cause
	if c.cancel != nil {
		c.cancel(cause)
	}
	return true
}

func (c *jobContext) std() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		c.inner, c.cancel = context.WithCancelCause(context.Background())
		if c.cancelled {
			c.cancel(c.cause)
		}
	}
	return c.inner
}

// Deadline is none: a timeout of the class is a context around this one.
func (c *jobContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c *jobContext) Done() <-chan struct{} { return c.std().Done() }

func (c *jobContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancelled {
		return context.Canceled
	}
	return nil
}

func (c *jobContext) Value(key any) any {
	switch key {
	case infoKey:
		return &c.info
	case loggerKey:
		return c.logger()
	case groupKey:
		return c.goroutines()
	}
	return c.std().Value(key) // the standard library asks for its own contexts like this
}

func (c *jobContext) logger() *zerolog.Logger {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		log := c.base.With().Str("jid", c.info.JID).Str("class", c.w.ref().Class).Str("queue", c.info.Queue).
			Str("capsule", c.info.Capsule).Int("attempt", c.info.Attempt).Logger()
		c.log = &log
	}
	return c.log
}

// goroutines are made when troupe.Go asks for them.
func (c *jobContext) goroutines() *troupe.Goroutines {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.group == nil {
		c.group = troupe.NewGoroutines(func(cause error) {
			if c.Cancel(cause) {
				c.e.cancelled(cause)
			}
		})
	}
	return c.group
}

// started are the goroutines if there are any.
func (c *jobContext) started() *troupe.Goroutines {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.group
}

// The keys of the three, which their packages keep to themselves, are read off a
// question.
var (
	infoKey   = keyOf(func(ctx context.Context) { troupe.JobInfoFrom(ctx) })
	loggerKey = keyOf(func(ctx context.Context) { zerolog.Ctx(ctx) })
	groupKey  = keyOf(func(ctx context.Context) { troupe.GoroutinesFrom(ctx) })
)

func keyOf(ask func(context.Context)) any {
	q := &question{Context: context.Background()}
	ask(q)
	return q.key
}

type question struct {
	context.Context
	key any
}

func (q *question) Value(key any) any {
	q.key = key
	return nil
}
