package testkit

import (
	"context"
	"runtime/debug"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/jobctx"
)

// PerformMany runs fn once with a job of each of args, as a function of troupe.HandleMany, in one call: otherwise it is Perform. It
// returns the outcomes of the jobs, in their order: what fn returns, or of a job that does not come to the call, since its
// arguments cannot be decoded, why. A panic of fn is a *troupe.PanicError of all jobs of the call.
func PerformMany[A troupe.Args](tb testing.TB, ctx context.Context, fn func(context.Context, []*troupe.Job[A]) []error, args []A, opts ...client.Option) []error {
	tb.Helper()
	r := new(troupe.Registry)
	troupe.HandleMany(r, fn, troupe.Collect{})
	pushes := Fake(tb)
	for _, a := range args {
		if _, err := pushes.Client.Push(context.WithoutCancel(ctx), a, opts...); err != nil {
			tb.Fatal(err)
		}
	}
	jobs := pushes.Jobs()
	outcomes, came := make([]error, len(jobs)), make(chan *joined)
	run := runner{tb: tb, registry: r, pushes: pushes}
	for i, j := range jobs {
		joins := context.WithValue(ctx, jobctx.Collector{}, joiner{i, came})
		go func() {
			outcomes[i] = run.run(joins, j.Payload)
			came <- nil
		}()
	}
	all := make([]*joined, len(jobs))
	n := 0
	for range jobs { // each comes, or has ended before
		if j := <-came; j != nil {
			all[j.index] = j
			n++
		}
	}
	var together []*joined
	var handed []any
	for _, j := range all {
		if j != nil {
			together, handed = append(together, j), append(handed, j.job)
		}
	}
	if n > 0 {
		if ctx.Value(jobctx.Client{}) == nil {
			ctx = client.NewContext(ctx, pushes.Client)
		}
		errs := callMany(tb, ctx, together[0].call, handed)
		for i, j := range together {
			var err error
			if errs != nil {
				err = errs[i]
			}
			j.outcome <- err
		}
		for range together {
			<-came
		}
	}
	return outcomes
}

// callMany makes the call, in the test's goroutine.
func callMany(tb testing.TB, ctx context.Context, call func(context.Context, []any) []error, jobs []any) (errs []error) {
	defer func() {
		if v := recover(); v != nil {
			stack := debug.Stack()
			tb.Logf("a call of %d jobs panicked: %v\n%s", len(jobs), v, stack)
			errs = make([]error, len(jobs))
			for i := range errs {
				errs[i] = &troupe.PanicError{Value: v, Stack: stack}
			}
		}
	}()
	return call(ctx, jobs)
}

// joiner has a job join the call.
type joiner struct {
	index int
	came  chan<- *joined
}

// joined is a job that waits for its outcome.
type joined struct {
	index   int
	job     any
	call    func(context.Context, []any) []error
	outcome chan error
}

// Collect is what the function of troupe.HandleMany calls.
func (j joiner) Collect(_ context.Context, job any, call func(ctx context.Context, jobs []any) []error) error {
	me := &joined{j.index, job, call, make(chan error)}
	j.came <- me
	return <-me.outcome
}
