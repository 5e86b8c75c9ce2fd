package trace

import (
	"cmp"
	"context"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// Middleware returns middleware for a daemon: each run of a job gets a span, which is current
// in the context of the handler. Give it as the first, so that the span has the time of all
// others in it.
//
// A run that fails or panics is an error with its error.type. One that was parked, discarded
// or interrupted (by a stop, by another process that took the job over, or between two items
// of an iterable job) is not: its attribute messaging.sidekiq.outcome tells which. The error is
// an event of the span, with the stack of a panic. What a goroutine of troupe.Go does after
// the handler has returned is not in it.
func Middleware(c Config) troupe.Middleware {
	t := newTracer(c)
	return func(next troupe.Handler) troupe.Handler {
		var last atomic.Pointer[start]
		return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) (err error) {
			ctx, span := t.run(ctx, p, &last)
			if !span.IsRecording() {
				return next.Perform(ctx, p)
			}
			returned := false
			defer func() {
				v := recover()
				if returned {
					conclude(ctx, span, err)
				} else {
					fail(span, &troupe.PanicError{Value: v, Goexit: v == nil, Stack: debug.Stack()})
				}
				span.End()
				if v != nil {
					panic(v)
				}
			}()
			err = next.Perform(ctx, p)
			returned = true
			return err
		})
	}
}

// start has what the spans of one class in one queue have in common.
type start struct {
	queue, class, name string
	options            []trace.SpanStartOption
}

func (t *tracer) start(queue, class string) *start {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(t.names.of(t.names.runs, queue, class)...)}
	if t.style != Child {
		options = append(options, trace.WithNewRoot())
	}
	return &start{queue, class, t.names.span(t.names.run, queue), slices.Clip(options)}
}

// run begins the span of a run, most likely as the last one of its class.
func (t *tracer) run(ctx context.Context, p *troupe.Payload, last *atomic.Pointer[start]) (context.Context, trace.Span) {
	info, ok := troupe.JobInfoFrom(ctx)
	if !ok {
		info.Queue, info.Attempt = p.Queue(), p.Failures()+1
	}
	as, class := last.Load(), classOf(p)
	if as == nil || as.queue != info.Queue || as.class != class {
		as = t.start(info.Queue, class)
		last.Store(as)
	}
	ctx = t.Extract(ctx, carrier{p})
	options := as.options
	if push := trace.SpanContextFromContext(ctx); t.style == Link && push.IsValid() && push.IsRemote() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: push}))
	}
	ctx, span := t.Start(ctx, as.name, options...)
	if span.IsRecording() {
		span.SetAttributes(t.names.message.String(words.Text(p.JID())), attribute.Int("messaging.sidekiq.attempt", info.Attempt))
		for _, key := range [...]string{"created_at", "enqueued_at"} {
			if at, ok := p.Time(key); ok {
				span.AddEvent(key, trace.WithTimestamp(at))
			}
		}
	}
	return ctx, span
}

// classOf is the class of a job as Ruby's instrumentation finds it.
func classOf(p *troupe.Payload) string {
	return words.Text(cmp.Or(p.Wrapped(), p.Class()))
}

// conclude records in a span how its run, which has returned, has ended.
func conclude(ctx context.Context, span trace.Span, err error) {
	asked, cause := job.AskedBy(err), context.Cause(ctx)
	name := ""
	switch {
	case err == nil:
		return
	case asked.Park:
		name = job.Parked.String()
	case asked.Move:
		name = job.Moved.String()
	case job.IsInterrupted(err), errchain.Is(cause, troupe.ErrShutdown), errchain.Is(cause, troupe.ErrFenced):
		name = job.Interrupted.String()
	case asked.Discard:
		name = "discarded"
	default:
		fail(span, err)
		return
	}
	span.SetAttributes(attribute.String("messaging.sidekiq.outcome", name))
	record(span, err)
}

// fail tells a span that it has failed with err.
func fail(span trace.Span, err error) {
	class, text := record(span, err)
	span.SetAttributes(attribute.String("error.type", class))
	span.SetStatus(codes.Error, text)
}

// record adds err as an event.
func record(span trace.Span, err error) (class, text string) {
	class = troupe.ErrorClass(err)
	defer func() { _ = recover() }() // of its method Error
	text = words.Text(err.Error())
	event := []attribute.KeyValue{attribute.String("exception.type", class), attribute.String("exception.message", text)}
	if lines := errchain.Backtrace(err); lines != nil {
		event = append(event, attribute.String("exception.stacktrace", strings.Join(lines, "\n")))
	}
	span.AddEvent("exception", trace.WithAttributes(event...))
	return class, text
}
