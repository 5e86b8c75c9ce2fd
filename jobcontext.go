package troupe

import (
	"context"
	"sync"
	"time"
)

// JobContext is the context of one run of a job, as the daemon makes it. It
// carries a JobInfo and is cancelled with a cause. It costs next to nothing
// until somebody listens: only then a context of the standard library is made
// inside, so that context.Cause, context.AfterFunc and contexts made from it
// work as with any other. All methods are safe for concurrent use.
type JobContext struct {
	info JobInfo

	mu        sync.Mutex
	inner     context.Context // made when first needed
	cancel    context.CancelCauseFunc
	cancelled bool
	cause     error
}

var _ context.Context = (*JobContext)(nil)

// NewJobContext returns a context that carries info; see JobInfoFrom.
func NewJobContext(info JobInfo) *JobContext { return &JobContext{info: info} }

// Cancel ends the context with cause, once; nil means context.Canceled.
func (c *JobContext) Cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancelled {
		return
	}
	c.cancelled, c.cause = true, cause
	if c.cancel != nil {
		c.cancel(cause)
	}
}

func (c *JobContext) std() context.Context {
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
func (c *JobContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (c *JobContext) Done() <-chan struct{} { return c.std().Done() }

// Err implements context.Context.
func (c *JobContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancelled {
		return context.Canceled
	}
	return nil
}

// Value implements context.Context.
func (c *JobContext) Value(key any) any {
	if _, ok := key.(jobInfoKey); ok {
		return &c.info
	}
	return c.std().Value(key) // the standard library asks for its own contexts like this
}
