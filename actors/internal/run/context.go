package run

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/jobctx"
	"github.com/troupehq/troupe/internal/words"
)

// jobContext is what the context of a handler is made from. troupe.JobInfoFrom
// finds the job's info in it and zerolog.Ctx the job's logger. It costs next to
// nothing until somebody asks: the logger is made when it is wanted, and so is a
// context of the standard library inside, when Done or a value that this
// one has not is asked for; then context.Cause, context.AfterFunc and contexts
// made from it work as with any other. All methods may be called from any
// goroutine, also after the job's end.
type jobContext struct {
	r *Run

	ending atomic.Pointer[ending] // nil until it ends
	inner  atomic.Pointer[inner]  // made when it is wanted, with mu held
	group  atomic.Pointer[job.Group]
	kept   atomic.Pointer[job.Kept]   // of client.Within; nil until it is asked for
	told   atomic.Pointer[job.Report] // likewise, of SetResult and SetProgress

	mu  sync.Mutex
	log *zerolog.Logger
}

type ending struct{ cause error }

// canceled is the ending of most contexts: it has no cause.
var canceled ending

type inner struct {
	context.Context
	cancel context.CancelCauseFunc
}

// Cancel ends the context with cause, once; nil means context.Canceled.
func (c *jobContext) Cancel(cause error) (first bool) {
	end := &canceled
	if cause != nil {
		end = &ending{cause}
	}
	if !c.ending.CompareAndSwap(nil, end) {
		return false
	}
	c.end()
	return true
}

// end ends the context inside, if there is one and this one has ended. It is
// called by all who change or tell either, so that nobody sees them differ.
func (c *jobContext) end() (ended bool) {
	end := c.ending.Load()
	if end == nil {
		return false
	}
	if in := c.inner.Load(); in != nil {
		in.cancel(end.cause)
	}
	return true
}

func (c *jobContext) std() context.Context {
	c.mu.Lock()
	in := c.inner.Load()
	if in == nil {
		in = &inner{}
		in.Context, in.cancel = context.WithCancelCause(context.Background())
		c.inner.Store(in)
	}
	c.mu.Unlock()
	c.end()
	return in
}

// Deadline is none: a timeout of the class is a context around this one.
func (c *jobContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c *jobContext) Done() <-chan struct{} { return c.std().Done() }

func (c *jobContext) Err() error {
	if c.end() {
		return context.Canceled
	}
	return nil
}

func (c *jobContext) Value(key any) any {
	switch key {
	case jobctx.Info{}:
		return c
	case loggerKey:
		return c.logger()
	case jobctx.Goroutines{}:
		return c.goroutines()
	case jobctx.Client{}:
		return c.r.env.Client
	case jobctx.Rests{}:
		return c.r
	case jobctx.Kept{}:
		return c.keptPushes()
	case jobctx.Collector{}:
		if h := c.r.handler; h != nil && h.collect.Max > 0 {
			return c.r
		}
		return nil
	case jobctx.Report{}:
		return c
	}
	return c.std().Value(key) // the standard library asks for its own contexts like this
}

// JobInfo is what troupe.JobInfoFrom asks for.
func (c *jobContext) JobInfo() troupe.JobInfo {
	info := troupe.JobInfo{
		JID: c.r.jid, Class: c.r.name, Queue: c.r.w.Unit.Queue, Capsule: c.r.env.Capsule, Attempt: c.r.attempt,
	}
	if own := c.r.own; own != nil {
		if info.CallbackOf = own.callbackOf; own.batch != nil {
			info.Batch = own.batch.ID
		}
	}
	return info
}

func (c *jobContext) logger() *zerolog.Logger {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		log := c.r.log.With().Str("jid", words.Text(c.r.jid)).Str("class", words.Text(c.r.class)).Str("queue", words.Text(c.r.w.Unit.Queue)).
			Str("capsule", c.r.env.Capsule).Int("attempt", c.r.attempt).Logger()
		c.log = &log
	}
	return c.log
}

// goroutines returns the group of the job's goroutines. The first call makes it, when troupe.Go is called.
func (c *jobContext) goroutines() *job.Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.group.Load()
	if g == nil {
		g = job.NewGroup(func(cause error) {
			if c.Cancel(cause) {
				c.r.cancelled(cause)
			}
		})
		c.group.Store(g)
	}
	return g
}

// keptPushes are made when client.Within asks for them.
func (c *jobContext) keptPushes() *job.Kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kept.Load()
	if k == nil {
		k = job.NewKept(c.r.jid)
		k.Reaches = c.r.reaches
		c.kept.Store(k)
		if c.r.over.Load() {
			k.End(false)
		}
	}
	return k
}

// started are the goroutines if there are any.
func (c *jobContext) started() *job.Group { return c.group.Load() }

// loggerKey is zerolog's own, which it does not export: it is read off a question. A logger for every
// job that makes a context from its own would double the time of that: see BenchmarkContext.
var loggerKey = keyOf(func(ctx context.Context) { zerolog.Ctx(ctx) })

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
