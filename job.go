package troupe

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/troupehq/troupe/internal/jobctx"
)

// Args is the argument list of one class of jobs as a Go type. Class is the name
// on the wire, for example "Billing::ChargeCard"; it is asked of a zero value and
// must not depend on the fields. The type decides what the JSON array "args" of
// the payload holds:
//
//   - A struct with arg tags stands for positional arguments, as in Ruby's
//     perform(a, b = nil, *rest): arg:"0", arg:"1" and so on without gaps;
//     arg:"2,optional" for the last ones; arg:"*" for a slice that takes the
//     rest; arg:"-" for a field that is no argument. A tagged struct must tag
//     every exported field.
//   - A struct without arg tags is one JSON object, by its json tags; an empty
//     struct is no argument at all.
//   - A slice is the whole list.
//   - Anything else (a map, a string, bytes in base64, a type with its own
//     MarshalJSON) is one argument.
//
// Optional arguments at the end that are zero are left out. Values are encoded
// by the rules of Payload.SetJSON, and fail as there.
//
// A type that also has a method Defaults() Options sets the options of all of its
// jobs there. It is called on a zero value, and may have a pointer receiver.
type Args interface {
	Class() string
}

// Job is what a typed handler gets.
type Job[A Args] struct {
	Args A

	JID   string // "" only if the payload has none
	Queue string // bare name of the queue it was fetched from

	// Attempt is the number of this run: 1 on the first, and one more after each failure. Ruby's
	// "retry_count" of the payload counts otherwise: see Payload.Failures.
	Attempt int

	// Payload is the whole record, for fields that Args does not show, such as the times
	// "created_at" and "enqueued_at". It is the handler's own copy.
	Payload *Payload

	ctx context.Context
}

// Context returns the context of this run of the job: in a handler of Handle the one that it gets, and in one of HandleMany
// that of this job alone, in which client.Within pushes with its ack, and which ends when this job is cancelled. It is
// context.Background for a job that no handler has got.
func (j *Job[A]) Context() context.Context {
	if j.ctx == nil {
		return context.Background()
	}
	return j.ctx
}

// JobInfo is what the daemon knows about a running job beside its payload.
type JobInfo struct {
	JID     string
	Class   string // Payload.HandlerClass
	Queue   string // bare name of the queue it was fetched from
	Capsule string
	Attempt int // 1 on the first run, as Job.Attempt

	// Batch is the ID of the batch that the job belongs to, "" if there is none; CallbackOf that of the batch whose
	// callback it is (see BatchOptions of package client).
	Batch, CallbackOf string
}

// JobInfoFrom returns the info of the job that ctx belongs to; false outside of one.
func JobInfoFrom(ctx context.Context) (JobInfo, bool) {
	switch of := ctx.Value(jobctx.Info{}).(type) {
	case *JobInfo:
		return *of, true
	case interface{ JobInfo() JobInfo }: // a running job: it is asked for at each run
		return of.JobInfo(), true
	}
	return JobInfo{}, false
}

// newArgs makes a usable zero value of A: for a pointer type one that points
// to something, so that methods with value receivers can be called.
func newArgs[A Args]() A {
	var args A
	if t := reflect.TypeFor[A](); t.Kind() == reflect.Pointer {
		args = reflect.New(t.Elem()).Interface().(A)
	}
	return args
}

// adapt makes a Handler of a typed function. Args that do not fit are an
// ordinary failure of the job (*ArgsError), so that a fixed daemon can run it
// on a later retry.
func adapt[A Args](fn func(context.Context, *Job[A]) error) Handler {
	return HandlerFunc(func(ctx context.Context, p *Payload) error {
		job := newJob[A](ctx, p)
		if err := DecodeArgs(p.Args(), &job.Args); err != nil {
			return err
		}
		return fn(ctx, job)
	})
}

// newJob makes the job of a run, without its arguments.
func newJob[A Args](ctx context.Context, p *Payload) *Job[A] {
	job := &Job[A]{JID: p.JID(), Attempt: p.Failures() + 1, Payload: p, ctx: ctx}
	if info, ok := JobInfoFrom(ctx); ok {
		job.Queue = info.Queue
	} else {
		job.Queue = p.Queue()
	}
	return job
}

// Handler performs one job. A nil error means done; any other is an outcome
// (see Discard, Kill, RetryIn, Park, MoveTo), by default a retry. ctx is cancelled, with a
// cause, at the stop deadline, when fenced, and at the class's timeout.
// The payload is the handler's own copy: what it changes there is seen by
// inner middleware and the handler, never by the stored retry. Once the handler has
// returned it must not be changed any more.
type Handler interface {
	Perform(ctx context.Context, p *Payload) error
}

// HandlerFunc makes a Handler of a function.
type HandlerFunc func(ctx context.Context, p *Payload) error

// Perform calls f.
func (f HandlerFunc) Perform(ctx context.Context, p *Payload) error { return f(ctx, p) }

// Middleware wraps a Handler. It is called once per class when the daemon is
// built; the handler it returns, which must not be nil, is called for each job,
// concurrently. A handler that does not call next and returns nil means: job done.
type Middleware func(next Handler) Handler

// chain wraps h in mw; the first one is the outermost. An error names the first of them, from the
// inside, that is nil or makes nil.
func chain(h Handler, whose string, mw []Middleware) (Handler, error) {
	for i, wrap := range slices.Backward(mw) {
		if wrap == nil {
			return nil, fmt.Errorf("%s[%d] is nil, expected a function", whose, i)
		}
		if h = wrap(h); isNil(h) {
			return nil, fmt.Errorf("%s[%d] returned nil, expected a Handler", whose, i)
		}
	}
	return h, nil
}

func isNil(h Handler) bool {
	f, ok := h.(HandlerFunc)
	return h == nil || ok && f == nil
}

// Go runs f in a goroutine of the job that ctx belongs to. What the go statement
// cannot do: a panic in f, or a runtime.Goexit, fails this job as a panic of its
// handler would, and nothing else; every other job of the process goes on.
//
// The job has ended when its handler has returned and all its goroutines have:
// only then is it acked or retried, and its slot free. The first failure, of a
// goroutine or the handler, cancels the job's context with that failure as the
// cause; the others should then end. The job's error is all of theirs, joined,
// without those that only report this cancellation; a panic comes alone. An
// outcome (Discard, Kill, RetryIn, Park, MoveTo) counts, whoever returns it.
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
