package testkit

import (
	"cmp"
	"context"
	"runtime/debug"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/jobctx"
)

// Context returns a context like the one that a handler gets from the daemon;
// it ends with the test. Zero fields of info are filled: a new JID, queue and
// capsule "default", attempt 1.
func Context(tb testing.TB, info troupe.JobInfo) context.Context {
	tb.Helper()
	return withInfo(tb.Context(), info)
}

func withInfo(ctx context.Context, info troupe.JobInfo) context.Context {
	if info.JID == "" {
		info.JID = job.NewID()
	}
	if info.Queue == "" {
		info.Queue = "default"
	}
	if info.Capsule == "" {
		info.Capsule = "default"
	}
	info.Attempt = max(1, info.Attempt)
	return context.WithValue(ctx, jobctx.Info{}, &info)
}

// Perform runs fn once with args, as the daemon would after a push with opts. The
// job is encoded by the client and decoded from those bytes, so that a type that
// cannot be stored in Redis fails here. It returns what fn returns;
// a panic is a *troupe.PanicError whose stack is logged. A push that fails, or a
// type that cannot be a job's, fails the test.
//
// What fn pushes through client.FromContext is dropped, unless ctx has a client by
// client.NewContext, that of a Fake for example.
//
// ctx is t.Context(), or one to be cancelled as a stop does; with a JobInfo in it
// (see Context), that is the one the handler gets. A retry is tested with
// client.Set("retry_count", n): the payload after n+1 failures.
func Perform[A troupe.Args](tb testing.TB, ctx context.Context, fn func(context.Context, *troupe.Job[A]) error, args A, opts ...client.Option) error {
	tb.Helper()
	r := new(troupe.Registry)
	troupe.Handle(r, fn)
	return performOne(tb, ctx, r, func(ctx context.Context, c *client.Client) (string, error) { return c.Push(ctx, args, opts...) })
}

// PerformClass runs the handler that r has for class once, inside the class's own
// middleware, with args as another program would push them. Otherwise it is Perform.
func PerformClass(tb testing.TB, ctx context.Context, r *troupe.Registry, class string, args []any, opts ...client.Option) error {
	tb.Helper()
	return performOne(tb, ctx, r, func(ctx context.Context, c *client.Client) (string, error) {
		return c.PushClass(ctx, class, args, opts...)
	})
}

func performOne(tb testing.TB, ctx context.Context, r *troupe.Registry, push func(context.Context, *client.Client) (string, error)) error {
	tb.Helper()
	pushes := Fake(tb)
	if _, err := push(context.WithoutCancel(ctx), pushes.Client); err != nil {
		tb.Fatal(err)
	}
	_, err := pushes.DrainOne(ctx, r)
	return err
}

// runner runs jobs in the caller's goroutine, so that a t.FailNow in a handler
// ends the test.
type runner struct {
	tb       testing.TB
	registry *troupe.Registry
	mw       []troupe.Middleware
	pushes   *Pushes // has the client of client.FromContext, unless the context has one
}

func (r *runner) run(ctx context.Context, p *troupe.Payload) (err error) {
	class := p.HandlerClass()
	entry, ok := r.registry.Lookup(class)
	if !ok {
		return &troupe.UnknownClassError{Class: class}
	}
	info, given := troupe.JobInfoFrom(ctx)
	if !given || r.running(ctx) {
		info = troupe.JobInfo{Queue: p.Queue(), Attempt: p.Failures() + 1}
	}
	info.JID, info.Class = p.JID(), class
	in, batched := job.BatchOf(p)
	info.Batch = in.ID
	info.CallbackOf, _ = job.CallbackOf(p)
	ctx = context.WithValue(withInfo(ctx, info), runnerKey{}, r)
	if ctx.Value(jobctx.Client{}) == nil {
		ctx = client.NewContext(ctx, r.pushes.Client)
	}
	ctx = withRests(ctx, entry.Options.Limits)
	behind, err := job.Behind(p)
	if err != nil {
		return troupe.Kill(err)
	}
	lock := job.LockOf(p, false)
	r.pushes.unlock(lock, troupe.UntilStart)
	defer r.pushes.unlock(lock, troupe.UntilDone)
	kept := job.NewKept(p.JID())
	at := place{kept: kept}
	ctx = context.WithValue(context.WithValue(ctx, jobctx.Kept{}, kept), jobctx.Keeper{}, &at)
	client.Within(ctx) // it tells kept how to push
	ctx, told := withTeller(ctx)
	defer told.Close()
	if err := job.Late(p, &entry.Options, time.Now()); err != nil {
		if job.AskedBy(err).Discard { // it has not failed
			return r.pushes.counted(ctx, p, job.BatchDone)
		}
		return cmp.Or(r.pushes.counted(ctx, p, job.BatchDied), err)
	}
	if r.pushes.calledOff(ctx, p) {
		return r.pushes.counted(ctx, p, job.BatchDone)
	}
	err = r.perform(ctx, class, &entry, p)
	pushes := kept.End(err == nil)
	if err == nil && len(behind) > 0 {
		var place *job.InBatch
		if batched {
			place = &in
		}
		pushes = append(pushes, job.Next(behind, place, p.JID(), time.Now(), troupe.TimestampsFloat))
	}
	fault := cmp.Or(at.fault, kept.Send(pushes))
	if err = cmp.Or(err, fault); err == nil {
		r.pushes.setResult(p.JID(), told.Result())
	}
	asked := job.AskedBy(err)
	switch {
	case err == nil && len(behind) == 0:
		err = r.pushes.counted(ctx, p, job.BatchDone)
	case asked.Kill || asked.Discard:
		err = cmp.Or(r.pushes.counted(ctx, p, job.BatchDied), err)
	case err != nil && len(behind) == 0 && !asked.Park && !asked.Move:
		err = cmp.Or(r.pushes.counted(ctx, p, job.BatchRan), err)
	}
	return err
}

// perform runs the handler of a job.
func (r *runner) perform(ctx context.Context, class string, entry *troupe.Entry, p *troupe.Payload) (err error) {
	defer func() {
		if v := recover(); v != nil {
			stack := debug.Stack()
			r.tb.Logf("job %s panicked: %v\n%s", class, v, stack)
			err = &troupe.PanicError{Value: v, Stack: stack}
		}
	}()
	if t := job.Timeout(p, &entry.Options); t > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, t, troupe.ErrJobTimeout)
		defer stop()
	}
	handler, err := entry.Chain(r.mw...)
	if err != nil {
		return err
	}
	ctx, goroutines := job.WithGroup(ctx)
	err, _ = goroutines.Wait(handler.Perform(ctx, p.Clone()))
	return err
}

// place is where an iterable job is. Nothing is saved but what the items have pushed with the ack.
type place struct {
	kept  *job.Kept
	fault error // the first of these pushes
}

func (*place) Load(context.Context) (troupe.Iteration, error) { return troupe.Iteration{}, nil }

func (p *place) Save(context.Context, troupe.Iteration) (cancelled time.Time, err error) {
	p.fault = cmp.Or(p.fault, p.kept.Send(p.kept.Before()))
	return time.Time{}, nil
}

func (p *place) Moved(troupe.Iteration) (save bool) { return p.kept.Moved() }
func (p *place) Drop()                              { p.kept.Drop() }
func (*place) Interrupted() bool                    { return false }
func (*place) End(troupe.Iteration, bool)           {}

type runnerKey struct{}

// running tells a job pushed inline by another: it has the context of that one,
// whose JobInfo is not its own.
func (r *runner) running(ctx context.Context) bool { return ctx.Value(runnerKey{}) != nil }
