package trace_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/trace"
)

// recorded is an SDK that keeps each span that has ended.
type recorded struct {
	*tracetest.SpanRecorder
	*sdk.TracerProvider
}

func record(options ...sdk.TracerProviderOption) recorded {
	r := tracetest.NewSpanRecorder()
	return recorded{r, sdk.NewTracerProvider(append(options, sdk.WithSpanProcessor(r))...)}
}

func (r recorded) config() trace.Config { return trace.Config{Provider: r.TracerProvider} }

// request returns a context with a sampled span that has begun, as in a handler of HTTP.
func (r recorded) request(ctx context.Context) (context.Context, oteltrace.Span) {
	return r.Tracer("test").Start(ctx, "request")
}

// named returns the spans with that name, in the order of their beginning.
func (r recorded) named(name string) []sdk.ReadOnlySpan {
	var out []sdk.ReadOnlySpan
	for _, s := range r.Started() {
		if s.Name() == name {
			out = append(out, s)
		}
	}
	return out
}

func (r recorded) only(t *testing.T, name string) sdk.ReadOnlySpan {
	t.Helper()
	spans := r.named(name)
	if len(spans) != 1 || spans[0].EndTime().IsZero() {
		t.Fatalf("%d spans named %q that have ended, want 1; there are %s", len(spans), name, r)
	}
	return spans[0]
}

func (r recorded) String() string {
	var names []string
	for _, s := range r.Started() {
		names = append(names, s.Name())
	}
	return fmt.Sprintf("%q", names)
}

// attributes are those of a span as text.
func attributes(s sdk.ReadOnlySpan) map[string]string { return asText(s.Attributes()) }

func asText(list []attribute.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// links are the spans that s is linked to, by their ids.
func links(s sdk.ReadOnlySpan) (out []oteltrace.SpanID) {
	for _, l := range s.Links() {
		out = append(out, l.SpanContext.SpanID())
	}
	return out
}

func linkedTo(t *testing.T, s, to sdk.ReadOnlySpan) {
	t.Helper()
	if l := s.Links(); len(l) != 1 || l[0].SpanContext.SpanID() != to.SpanContext().SpanID() || l[0].SpanContext.TraceID() != to.SpanContext().TraceID() {
		t.Errorf("%s is linked to %v, want %s only, %v", s.Name(), links(s), to.Name(), to.SpanContext().SpanID())
	}
}

func childOf(t *testing.T, s, of sdk.ReadOnlySpan) {
	t.Helper()
	if s.Parent().SpanID() != of.SpanContext().SpanID() || s.SpanContext().TraceID() != of.SpanContext().TraceID() {
		t.Errorf("%s is a child of %v, want %s, %v", s.Name(), s.Parent().SpanID(), of.Name(), of.SpanContext().SpanID())
	}
}

func equal(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for key := range want {
		if got[key] != want[key] {
			t.Errorf("%s: %s is %q, want %q", what, key, got[key], want[key])
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s: %s is %q, want none", what, key, got[key])
		}
	}
}

type order struct {
	ID int `arg:"0"`
}

func (order) Class() string            { return "Order" }
func (order) Defaults() troupe.Options { return troupe.Options{Queue: "orders"} }

type mail struct{}

func (mail) Class() string            { return "Mail" }
func (mail) Defaults() troupe.Options { return troupe.Options{Queue: "mail"} }

// From a request by way of the schedule set, a retry and a push of the handler: each run is
// a trace of its own with a link to its push, and both attempts to the same one.
func TestRunsAreLinkedThroughScheduleAndRetry(t *testing.T) {
	r := record()
	var jobs troupe.Registry
	var c *client.Client
	var seen []string
	var done chan struct{} // of the bubble
	troupe.Handle(&jobs, func(ctx context.Context, job *troupe.Job[order]) error {
		seen = append(seen, carried(job.Payload))
		if job.Attempt == 1 {
			return errors.New("declined")
		}
		_, err := c.Push(ctx, mail{})
		return err
	})
	troupe.Handle(&jobs, func(context.Context, *troupe.Job[mail]) error {
		close(done)
		return nil
	})
	testkit.Virtual(t, actors.Config{
		Registry: &jobs, Capsules: []actors.Capsule{{Concurrency: 1, Queues: actors.Strict{"orders", "mail"}}},
		Middleware: []troupe.Middleware{trace.Middleware(r.config())},
	}, func(t *testing.T, kit *testkit.Kit) {
		done = make(chan struct{})
		c = client.New(kit.Redis, trace.Client(r.config()))
		ctx, request := r.request(t.Context())
		jid, err := c.Push(ctx, order{7}, client.In(time.Minute))
		request.End()
		harness.OK(t, err)
		stored := kit.Redis.ZRange(t.Context(), "schedule", 0, -1).Val()
		<-done
		kit.Stop()

		push := r.only(t, "send orders")
		harness.Equal(t, "a span of kind", push.SpanKind(), oteltrace.SpanKindProducer)
		childOf(t, push, r.only(t, "request"))
		equal(t, "the push", attributes(push), map[string]string{
			"messaging.system": "sidekiq", "messaging.operation.name": "send", "messaging.operation.type": "send",
			"messaging.destination.name": "orders", "messaging.message.id": jid, "messaging.sidekiq.job_class": "Order",
		})
		if want := "00-" + push.SpanContext().TraceID().String() + "-" + push.SpanContext().SpanID().String() + "-01"; len(seen) != 2 || seen[0] != want || seen[1] != want {
			t.Errorf("the attempts carry %q, want %s", seen, want)
		}
		if len(stored) != 1 || carried(parsed(t, stored[0])) != seen[0] {
			t.Errorf("scheduled as %s", stored)
		}

		runs := r.named("process orders")
		if len(runs) != 2 {
			t.Fatalf("there are %s", r)
		}
		for i, run := range runs {
			linkedTo(t, run, push)
			if run.SpanKind() != oteltrace.SpanKindConsumer || run.Parent().IsValid() || run.SpanContext().TraceID() == push.SpanContext().TraceID() {
				t.Errorf("attempt %d is of kind %v below %v", i+1, run.SpanKind(), run.Parent())
			}
			want := map[string]string{
				"messaging.system": "sidekiq", "messaging.operation.name": "process", "messaging.operation.type": "process",
				"messaging.destination.name": "orders", "messaging.message.id": jid, "messaging.sidekiq.job_class": "Order",
				"messaging.sidekiq.attempt": fmt.Sprint(i + 1),
			}
			if i == 0 {
				want["error.type"] = "error"
			}
			equal(t, "attempt "+want["messaging.sidekiq.attempt"], attributes(run), want)
		}
		if s := runs[0].Status(); s.Code != codes.Error || s.Description != "declined" {
			t.Errorf("the first attempt ended with %v", s)
		}
		if s := runs[1].Status(); s.Code != codes.Unset {
			t.Errorf("the second attempt ended with %v", s)
		}
		if events := runs[1].Events(); len(events) != 2 || events[0].Name != "created_at" || events[1].Name != "enqueued_at" ||
			events[1].Time.Sub(events[0].Time) < time.Minute {
			t.Errorf("the events of the second attempt: %v", events)
		}

		further := r.only(t, "send mail")
		childOf(t, further, runs[1])
		linkedTo(t, r.only(t, "process mail"), further)
	}, testkit.Strict())
}

// carried is the traceparent of a job.
func carried(p *troupe.Payload) string {
	text, _ := p.String("traceparent")
	return text
}

func parsed(t testing.TB, raw string) *troupe.Payload {
	t.Helper()
	p, err := troupe.ParsePayload([]byte(raw))
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return p
}

func TestStyles(t *testing.T) {
	for style, want := range map[trace.Style]struct{ links, child int }{trace.Link: {1, 0}, trace.Child: {0, 1}, trace.None: {0, 0}} {
		r := record()
		cfg := r.config()
		cfg.Style = style
		q := testkit.Fake(t, trace.Client(cfg))
		ctx, request := r.request(t.Context())
		harness.Must(q.Client.Push(ctx, order{}))(t)
		request.End()
		drain(t, q, func(context.Context, *troupe.Job[order]) error { return nil }, cfg)
		push, run := r.only(t, "send orders"), r.only(t, "process orders")
		if len(run.Links()) != want.links {
			t.Errorf("style %d: %d links", style, len(run.Links()))
		}
		if child := run.Parent().IsValid(); child != (want.child == 1) {
			t.Errorf("style %d: a child of %v", style, run.Parent().SpanID())
		}
		if want.child == 1 {
			childOf(t, run, push)
		}
	}
}

// drain runs what was pushed with the handler.
func drain[A troupe.Args](t *testing.T, q *testkit.Pushes, handle func(context.Context, *troupe.Job[A]) error, cfg trace.Config) {
	t.Helper()
	var jobs troupe.Registry
	troupe.Handle(&jobs, handle)
	if n, err := q.Drain(t.Context(), &jobs, trace.Middleware(cfg)); n != 1 || err != nil {
		t.Fatalf("%d jobs have run: %v", n, err)
	}
}

func TestRubysNames(t *testing.T) {
	r := record()
	cfg := r.config()
	cfg.RubyNames = true
	q := testkit.Fake(t, trace.Client(cfg))
	ctx, _ := r.request(t.Context())
	jid := harness.Must(q.Client.Push(ctx, order{}))(t)
	drain(t, q, func(context.Context, *troupe.Job[order]) error { return nil }, cfg)
	want := map[string]string{
		"messaging.system": "sidekiq", "messaging.sidekiq.job_class": "Order", "messaging.message_id": jid,
		"messaging.destination": "orders", "messaging.destination_kind": "queue",
	}
	equal(t, "publish", attributes(r.only(t, "orders publish")), want)
	want["messaging.operation"], want["messaging.sidekiq.attempt"] = "process", "1"
	equal(t, "process", attributes(r.only(t, "orders process")), want)
}

// The job of an ActiveJob has the class that is wrapped, and the span the queue that it was
// fetched from.
func TestTheClassIsTheWrappedOneAndTheQueueTheOneItCameFrom(t *testing.T) {
	r := record()
	h := trace.Middleware(r.config())(troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
	for queue, wrapped := range map[string]string{"moved": "Invoice", "odd": "7"} {
		p := parsed(t, fmt.Sprintf(`{"class":"Sidekiq::ActiveJob::Wrapper","wrapped":%s,"queue":"default","args":[],"jid":"j"}`, map[string]string{"moved": `"Invoice"`, "odd": "7"}[queue]))
		harness.OK(t, h.Perform(testkit.Context(t, troupe.JobInfo{Queue: queue, Attempt: 4}), p))
		run := attributes(r.only(t, "process "+queue))
		if run["messaging.sidekiq.job_class"] != wrapped || run["messaging.sidekiq.attempt"] != "4" {
			t.Errorf("got %v", run)
		}
	}
}

// The names are those of OpenTelemetry's conventions.
func TestNamesAreThoseOfTheConventions(t *testing.T) {
	r := record()
	q := testkit.Fake(t, trace.Client(r.config()))
	ctx, _ := r.request(t.Context())
	harness.Must(client.PushBulk(ctx, q.Client, slices.Values([]order{{1}, {2}})))(t)
	if _, err := q.Client.Push(ctx, mail{}, client.Queue("")); err == nil {
		t.Fatal("a push without a queue")
	}
	h := trace.Middleware(r.config())(troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return errors.New("no") }))
	if err := h.Perform(t.Context(), parsed(t, `{"class":"Order","queue":"orders","args":[],"jid":"j"}`)); err == nil {
		t.Fatal("no error")
	}
	known := []attribute.Key{
		semconv.MessagingSystemKey, semconv.MessagingOperationNameKey, semconv.MessagingOperationTypeKey, semconv.MessagingDestinationNameKey,
		semconv.MessagingMessageIDKey, semconv.MessagingBatchMessageCountKey, semconv.ErrorTypeKey,
	}
	used := map[attribute.Key]bool{}
	for _, s := range r.Ended() {
		for _, a := range s.Attributes() {
			used[a.Key] = true
			if !slices.Contains(known, a.Key) && !strings.HasPrefix(string(a.Key), "messaging.sidekiq.") {
				t.Errorf("%s has the attribute %s", s.Name(), a.Key)
			}
		}
	}
	for _, key := range known {
		if !used[key] {
			t.Errorf("no span has %s", key)
		}
	}
	run := r.only(t, "process orders")
	event := run.Events()[len(run.Events())-1]
	if got := asText(event.Attributes); event.Name != semconv.ExceptionEventName || got[string(semconv.ExceptionTypeKey)] != "error" || got[string(semconv.ExceptionMessageKey)] != "no" {
		t.Errorf("the event %s has %v", event.Name, got)
	}
	harness.Equal(t, "an operation of type", attributes(run)[string(semconv.MessagingOperationTypeKey)], semconv.MessagingOperationTypeProcess.Value.String())
	if got := attributes(r.only(t, "send orders"))[string(semconv.MessagingOperationTypeKey)]; got != semconv.MessagingOperationTypeSend.Value.String() {
		t.Errorf("an operation of type %q", got)
	}
}
