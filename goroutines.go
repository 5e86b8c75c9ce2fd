package troupe

import (
	"context"

	"github.com/troupehq/troupe/internal/jobctx"
)

// Go runs f in a goroutine of the job that ctx belongs to. What the go statement
// cannot do: a panic in f, or a runtime.Goexit, fails this job as a panic of its
// handler would, and nothing else; every other job of the process goes on.
//
// The job has ended when its handler has returned and all its goroutines have:
// only then is it acked or retried, and its slot free. The first failure, of a
// goroutine or the handler, cancels the job's context with that failure as the
// cause; the others should then end. The job's error is all of theirs, joined,
// without those that only report this cancellation; a panic comes alone. An
// outcome (Discard, Kill, RetryIn, Park) counts, whoever returns it.
//
// A goroutine that does not end keeps its job from ending: the job is then
// unresponsive, or given up by a stop, as if the handler had not returned. After the job's end Go
// starts nothing.
//
// With a ctx that belongs to no job, Go is the go statement, and an error of f
// is lost.
func Go(ctx context.Context, f func(ctx context.Context) error) {
	g, ok := ctx.Value(jobctx.Goroutines{}).(interface {
		Go(context.Context, func(context.Context) error)
	})
	if !ok {
		go func() { _ = f(ctx) }()
		return
	}
	g.Go(ctx, f)
}
