package trace

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
)

// Client returns the option with which a client traces its pushes. Each call that pushes,
// a bulk push as well, gets one span, from its beginning until Redis has answered, and its
// jobs carry the context of that span. Client middleware finds the span in its context.
//
// If the context of the call has no sampled span, there is no span and no allocation, and the
// job has the bytes that it has without this option.
//
// A job that carries a context already keeps it, be it pushed by PushPayload or with
// client.Set. The span of PushPayload then has a link to that context. The poller of the daemon
// and package inspect push jobs on as they are, without a span.
func Client(c Config) client.ClientOption {
	return client.WithSpans(newTracer(c).begin)
}

// begin begins the span of a call that pushes.
func (t *tracer) begin(ctx context.Context, call job.PushCall) (context.Context, *job.PushSpan) {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	s := &job.PushSpan{PushCall: call}
	options, fields := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer)}, &s.Fields
	if p := call.Payload; p != nil {
		call.Class, fields = classOf(p), p
		if kept := trace.SpanContextFromContext(t.Extract(context.Background(), carrier{p})); kept.IsValid() {
			options, fields = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(trace.Link{SpanContext: kept})}, nil
		}
	}
	attributes := t.names.of(t.names.pushes, call.Queue, call.Class)
	if call.JID != "" {
		attributes = append(attributes, t.names.message.String(call.JID))
	}
	own, span := t.Start(ctx, t.names.span(t.names.push, call.Queue), append(options, trace.WithAttributes(attributes...))...)
	if !span.SpanContext().IsSampled() {
		span.End()
		return ctx, nil
	}
	if fields != nil {
		t.Inject(own, carrier{fields})
	}
	if text := s.Fields.Bytes(); len(text) > len("{}") {
		s.Text = append([]byte{','}, text[1:len(text)-1]...)
	}
	s.Finish = func(s *job.PushSpan, err error) {
		if s.Bulk {
			span.SetName(t.names.span(t.names.push, s.Queue))
			span.SetAttributes(t.names.of([]attribute.KeyValue{attribute.Int("messaging.batch.message_count", s.Jobs)}, s.Queue, s.Class)...)
		}
		if err != nil {
			fail(span, err)
		}
		span.End()
	}
	return own, s
}
