package troupe

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupehq/troupe/internal/jobctx"
)

// Collect says how many jobs a function of HandleMany gets in one call. The zero value is Max 100 and Wait 200 ms.
type Collect struct {
	// Max is how many jobs one call has at most, 1 to 10,000. 0 is 100.
	Max int
	// Wait is how long the first job of a call waits for others. 0 is 200 ms. It must be shorter than a Timeout of
	// the class.
	Wait time.Duration
}

const (
	collectMax  = 100
	collectMost = 10_000
	collectWait = 200 * time.Millisecond
)

// RawArgs are the arguments of a job of HandleManyClass: the text of a JSON array.
type RawArgs json.RawMessage

// Class is "": the arguments are those of any class.
func (RawArgs) Class() string { return "" }

// HandleMany registers fn for the class of A, for many jobs in one call: rows that one statement inserts, or messages
// that one request sends. The daemon collects the jobs that it takes, and calls fn when there are c.Max of them, or
// when the first has waited for c.Wait. fn returns an outcome for each job, in their order: nil, an error, or what
// Discard, Kill, RetryIn, Park and MoveTo return. A nil slice means that all are done; a slice of another length than
// jobs is a failure of all of them.
//
// Each job is a job of its own: it stays in progress in Redis until its own outcome is stored, so a process that dies
// in a call loses none, and all of them run again. It has its own middleware, retries, limits and lock, its own context
// (Job.Context), events and log lines. A job that waits in a collection takes no processor; a call takes one. So a
// capsule makes up to Concurrency calls at once. Quiet and stop end the waiting: fn is called at once with what is there.
// A job under a concurrency limit is collected only with those that the limit lets in.
//
// ctx is that of the call, and belongs to no job. It ends, with the cause, when the contexts of all its jobs have ended: at
// the deadline of a stop, or at the class's Timeout, in which the wait counts. A job that is cancelled while it waits leaves the collection.
// A panic of fn fails all jobs of the call and restarts one processor. So does one in a goroutine of Go with ctx; an
// error of such a goroutine fails the jobs that have no error of their own.
//
// The daemon counts the time of a call once: in the metrics each of its jobs has its share of it. A job that was in
// progress at several deaths of a process runs in a call of its own. Outside of a daemon (Registry, package testkit) each job is a
// call of its own. HandleMany panics as Handle does, and if c is out of range.
func HandleMany[A Args](r *Registry, fn func(ctx context.Context, jobs []*Job[A]) []error, c Collect, opts ...Options) {
	if fn == nil {
		handle[A](r, nil, Entry{}, opts)
	}
	handle(r, collected(fn), Entry{Collect: c.filled()}, opts)
}

// HandleManyClass is HandleMany for a class without a type of arguments.
func HandleManyClass(r *Registry, class string, fn func(ctx context.Context, jobs []*Job[RawArgs]) []error, c Collect, opts ...Options) {
	switch {
	case class == "":
		panic("troupe: Handle: empty class")
	case fn == nil:
		panic(fmt.Sprintf("troupe: Handle: nil function for class %q", class))
	}
	one := collected(fn)
	r.add(Entry{Class: class, Collect: c.filled(), Handler: HandlerFunc(func(ctx context.Context, p *Payload) error {
		job := newJob[RawArgs](ctx, p)
		job.Args = RawArgs(p.Args())
		return one(ctx, job)
	})}, opts)
}

// collector collects jobs for a call. Collect returns the outcome of the job.
type collector interface {
	Collect(ctx context.Context, job any, call func(ctx context.Context, jobs []any) []error) error
}

// collected makes a function for one job of one for many.
func collected[A Args](fn func(context.Context, []*Job[A]) []error) func(context.Context, *Job[A]) error {
	call := func(ctx context.Context, of []any) []error {
		jobs := make([]*Job[A], len(of))
		for i, job := range of {
			jobs[i] = job.(*Job[A]) //nolint:forcetypeassert // this function alone hands them in
		}
		errs := fn(ctx, jobs)
		if errs != nil && len(errs) != len(jobs) {
			err := fmt.Errorf("troupe: HandleMany: the function returned %d outcomes for %d jobs, expected one for each, or nil", len(errs), len(jobs))
			errs = make([]error, len(jobs))
			for i := range errs {
				errs[i] = err
			}
		}
		return errs
	}
	return func(ctx context.Context, job *Job[A]) error {
		if c, ok := ctx.Value(jobctx.Collector{}).(collector); ok {
			return c.Collect(ctx, job, call)
		}
		if errs := call(ctx, []any{job}); errs != nil {
			return errs[0]
		}
		return nil
	}
}

// filled is c with its defaults.
func (c Collect) filled() Collect {
	return Collect{Max: cmp.Or(c.Max, collectMax), Wait: cmp.Or(c.Wait, collectWait)}
}

// validate tells what is wrong with c, of a class with this timeout.
func (c Collect) validate(timeout time.Duration) error {
	switch {
	case c.Max < 0 || c.Max > collectMost:
		return fmt.Errorf("Collect.Max is %d, expected 1 to %d, or 0 for %d", c.Max, collectMost, collectMax)
	case c.Wait < 0:
		return fmt.Errorf("Collect.Wait is %s, expected a time above 0, or 0 for %s", c.Wait, collectWait)
	case timeout > 0 && c.Wait >= timeout:
		return fmt.Errorf("Collect.Wait is %s, expected less than Timeout, which is %s", c.Wait, timeout)
	}
	return nil
}
