package run

import (
	"context"
	"runtime/debug"
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

	in    atomic.Pointer[Call] // once that is made
	share atomic.Int64         // of the time of the call, in ns
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
		if r.slot.Withdraw(m) {
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

// faulted is the fault of the call that v has come from; nil if it is the job's own.
func (r *Run) faulted(v any) error {
	if m := r.member.Load(); m != nil {
		if fault, ok := v.(*troupe.PanicError); ok && fault == m.call.fault {
			return fault
		}
	}
	return nil
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
	if m := r.member.Load(); m != nil {
		return time.Duration(m.share.Load())
	}
	return r.elapsed
}

// Call is jobs of one class that are performed together.
type Call struct {
	members []*Member // guarded by the capsule's lock until the call begins; then it does not change
	begun   bool      // likewise

	Stop func() // ends the wait for more jobs; does not change

	slot  Slot
	given atomic.Int64 // members that were given up
	freed atomic.Bool  // the call has left its slot
	fault *troupe.PanicError
	done  chan struct{}
}

// NewCall makes a Call without jobs.
func NewCall() *Call { return &Call{done: make(chan struct{})} }

// Add adds a job. It returns how many there are.
func (c *Call) Add(m *Member) int {
	m.call = c
	c.members = append(c.members, m)
	return len(c.members)
}

// Withdraw takes m out of its call; false if that has begun.
func (m *Member) Withdraw() bool {
	c := m.call
	if c.begun {
		return false
	}
	for i, other := range c.members {
		if other == m {
			c.members = append(c.members[:i], c.members[i+1:]...)
			return true
		}
	}
	return false
}

// Begin is called once, before Execute. Jobs that were taken from this process while they waited are not in the call. False if no
// job is left.
func (c *Call) Begin() bool {
	c.begun = true
	var members []*Member
	for _, m := range c.members {
		if m.r.env.Ledger.IsOpen(m.r.w) {
			members = append(members, m)
		} else {
			m.err = context.Cause(m.ctx)
		}
	}
	c.members = members
	if members == nil {
		close(c.done)
	}
	return members != nil
}

// First is the oldest job of a call that has begun.
func (c *Call) First() *Run { return c.members[0].r }

// Execute makes the call, then frees the slot. It tells whether the goroutine goes on with another job. What
// follows the user's function is deferred, since a Goexit runs nothing else.
func (c *Call) Execute(slot Slot) (again bool) {
	c.slot = slot
	v, began := c.First().env, time.Now()
	ctx := &callContext{env: v}
	var cancel context.CancelCauseFunc
	ctx.Context, cancel = context.WithCancelCause(context.Background())
	ctx.group = job.NewGroup(cancel)
	var open atomic.Int64
	open.Store(int64(len(c.members)))
	jobs := make([]any, len(c.members))
	for i, m := range c.members {
		jobs[i] = m.job
		m.in.Store(c)
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
			_, _ = ctx.group.Wait(nil)
		}
	}()
	errs := c.perform(ctx, jobs)
	err, fatal := ctx.group.Wait(nil)
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
	for _, m := range c.members {
		m.share.Store(int64(took) / int64(len(c.members)))
	}
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

// callContext is what the function of a call gets. It belongs to no job.
type callContext struct {
	context.Context
	env   *Env
	group *job.Group
}

func (c *callContext) Value(key any) any {
	switch key {
	case loggerKey:
		return &c.env.Log
	case jobctx.Goroutines{}:
		return c.group
	case jobctx.Client{}:
		return c.env.Client
	}
	return c.Context.Value(key)
}
