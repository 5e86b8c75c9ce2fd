package run

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/jobctx"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/words"
	"github.com/troupehq/troupe/supervisor"
)

// This file is about jobs of troupe.HandleMany. Each has a run of its own, whose goroutine leaves its slot and waits in a
// collection; when that is due a worker makes the call for all of them, and the runs end with what it says.

// Member is a job that waits for a call.
type Member struct {
	r       *Run
	ctx     context.Context
	job     any
	perform func(context.Context, []any) []error
	call    *Call // set when it is collected
	err     error // what the call says of it

	in atomic.Pointer[Call] // once that has begun
}

// Class is that of the job.
func (m *Member) Class() *Class { return m.r.handler }

// Alone tells whether the job is to have a call of its own.
func (m *Member) Alone() bool { return m.r.w.Suspect }

// Collect waits for the call of the job. It returns what that says of the job, or the cause if ctx ends before
// the call begins; a panic of the call comes out of it.
func (r *Run) Collect(ctx context.Context, of any, perform func(context.Context, []any) []error) error {
	m := &Member{r: r, ctx: ctx, job: of, perform: perform}
	r.member.Store(m)
	r.slot.Collect(m, !r.freed.Swap(true))
	select {
	case <-m.call.done:
	case <-ctx.Done():
		if m.withdraw() {
			return context.Cause(ctx)
		}
		<-m.call.done
	}
	osproc.AwaitTurn(r.env.Identity, r.slot.Path()+" "+r.jid)
	if m.call.fault != nil {
		panic(m.call.fault)
	}
	return m.err
}

// inCall is the call that performs the job, a *Call; the run itself if none does.
func (r *Run) inCall() any {
	if m := r.member.Load(); m != nil {
		if c := m.in.Load(); c != nil {
			return c
		}
	}
	return r
}

// busy is the time for which the job has kept a slot busy.
func (r *Run) busy() time.Duration {
	m := r.member.Load()
	if m == nil {
		return r.elapsed
	}
	if c := m.in.Load(); c != nil {
		return time.Duration(c.share.Load())
	}
	return 0
}

// Call is jobs of one class that are performed together.
type Call struct {
	mu      sync.Mutex
	members []*Member // guarded by mu until the call begins; then it does not change

	Stop func() // ends the wait for more jobs; does not change

	slot  Slot
	given atomic.Int64 // members that were given up
	freed atomic.Bool  // the call has left its slot
	share atomic.Int64 // of each member in the time of the call, in ns
	fault *troupe.PanicError
	done  chan struct{}
}

// NewCall makes a Call without jobs.
func NewCall() *Call { return &Call{done: make(chan struct{})} }

// Add adds a job. It returns how many there are.
func (c *Call) Add(m *Member) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.call = c
	c.members = append(c.members, m)
	return len(c.members)
}

// withdraw takes m out of its call; false if that has begun with it.
func (m *Member) withdraw() bool {
	c := m.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.in.Load() != nil {
		return false
	}
	c.members = slices.DeleteFunc(c.members, func(other *Member) bool { return other == m })
	return true
}

// Begin is called once, before Execute. Jobs that were taken from this process while they waited are not in the call: their
// contexts end. False if no job is left.
func (c *Call) Begin(slot Slot) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slot = slot
	c.members = slices.DeleteFunc(c.members, func(m *Member) bool { return !m.r.env.Ledger.IsOpen(m.r.w) })
	for _, m := range c.members {
		m.in.Store(c)
	}
	return len(c.members) > 0
}

// First is the oldest job of a call that has begun.
func (c *Call) First() *Run { return c.members[0].r }

// Execute makes the call, then frees the slot. It tells whether the goroutine goes on with another job. What
// follows the user's function is deferred, since a Goexit runs nothing else.
func (c *Call) Execute() (again bool) {
	v, began := c.First().env, time.Now()
	ctx, cancel := context.WithCancelCause(context.Background())
	group := job.NewGroup(cancel)
	ctx = context.WithValue(ctx, loggerKey, &v.Log)
	ctx = context.WithValue(ctx, jobctx.Goroutines{}, group)
	ctx = context.WithValue(ctx, jobctx.Client{}, v.Client)
	var open atomic.Int64
	open.Store(int64(len(c.members)))
	jobs := make([]any, len(c.members))
	for i, m := range c.members {
		jobs[i] = m.job
		defer context.AfterFunc(m.ctx, func() {
			if open.Add(-1) == 0 {
				cancel(context.Cause(m.ctx))
			}
		})()
	}
	returned := false
	defer func() {
		cancel(nil)
		again = c.end(time.Since(began))
	}()
	defer func() {
		if value := recover(); !returned {
			c.fault = &troupe.PanicError{Value: value, Goexit: value == nil, Stack: debug.Stack()}
			_, _ = group.Wait(nil)
		}
	}()
	errs := c.perform(ctx, jobs)
	err, fatal := group.Wait(nil)
	if fatal {
		c.fault, _ = errchain.As[*troupe.PanicError](err)
	}
	for i, m := range c.members {
		if m.err = err; errs != nil && errs[i] != nil {
			m.err = errs[i]
		}
	}
	returned = true
	return false
}

// perform calls the user's function. Its name is looked for in stacks.
func (c *Call) perform(ctx context.Context, jobs []any) []error {
	return c.members[0].perform(ctx, jobs)
}

// end lets the runs of the jobs go on, and frees the slot.
func (c *Call) end(took time.Duration) (again bool) {
	c.share.Store(int64(took) / int64(len(c.members)))
	first := c.First()
	var crash *supervisor.JobCrash
	if c.fault != nil {
		crash = &supervisor.JobCrash{Queue: first.w.Unit.Queue, Err: c.fault, Stack: c.fault.Stack, Class: first.class, JID: first.jid}
	}
	close(c.done)
	supervised.Tell(func() {
		first.env.Log.Debug().Str("class", words.Text(first.class)).Str("capsule", first.env.Capsule).Int("jobs", len(c.members)).
			Float64("elapsed_s", took.Seconds()).Msg("jobs were performed in one call")
	})
	if c.freed.Swap(true) {
		c.slot.Left()
		return false
	}
	c.slot.Finish(nil, crash, time.Now())
	return crash == nil
}

// gaveUp notes that one more of the jobs was given up: with the last of them the call leaves its slot.
func (c *Call) gaveUp() {
	if c.given.Add(1) == int64(len(c.members)) && !c.freed.Swap(true) {
		c.slot.Replace()
	}
}
