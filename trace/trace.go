package trace

import (
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupehq/troupe"
)

// Config says how jobs are traced. The zero value is what Ruby's instrumentation does by
// default, with the names of OpenTelemetry's current conventions.
type Config struct {
	// Provider makes the tracer; nil means the global one of package otel, also if that is
	// set later.
	Provider trace.TracerProvider

	// Propagator writes the context of a push into the fields of the job, and reads it there.
	// nil means traceparent, tracestate and baggage, as in Ruby; propagation.TraceContext{}
	// leaves the baggage out.
	Propagator propagation.TextMapPropagator

	// Style is how the span of a run belongs to that of its push; a client ignores it.
	Style Style

	// RubyNames gives spans and attributes the names that Ruby's instrumentation 0.29 gives
	// them: "mail process" in place of "process mail", messaging.destination in place of
	// messaging.destination.name, and so on.
	RubyNames bool
}

// Style is how the span of a run belongs to that of its push: Ruby's propagation_style.
type Style int

// The styles.
const (
	Link  Style = iota // a trace of its own, with a link to the push
	Child              // in the trace of the push, below its span
	None               // a trace of its own
)

// tracer is what both sides share.
type tracer struct {
	trace.Tracer
	propagation.TextMapPropagator
	style Style
	names names
}

func newTracer(c Config) *tracer {
	t := &tracer{TextMapPropagator: c.Propagator, style: c.Style, names: current}
	if c.RubyNames {
		t.names = ruby
	}
	if t.TextMapPropagator == nil {
		t.TextMapPropagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	if c.Provider == nil {
		c.Provider = otel.GetTracerProvider()
	}
	t.Tracer = c.Provider.Tracer("github.com/troupehq/troupe/trace")
	return t
}

// carrier has the fields of a job as propagators want them.
type carrier struct{ p *troupe.Payload }

func (c carrier) Get(key string) string {
	text, _ := c.p.String(key)
	return text
}

func (c carrier) Set(key, value string) { c.p.SetString(key, value) }
func (c carrier) Keys() []string        { return slices.Collect(c.p.Keys()) }

// names are those of spans and attributes that differ.
type names struct {
	push, run            string
	queueFirst           bool // in the name of a span
	destination, message attribute.Key
	pushes, runs         []attribute.KeyValue // of each span
}

var system = attribute.String("messaging.system", "sidekiq")

// current are the names of OpenTelemetry's conventions for messaging.
var current = names{
	push: "send", run: "process", destination: "messaging.destination.name", message: "messaging.message.id",
	pushes: []attribute.KeyValue{system, attribute.String("messaging.operation.name", "send"), attribute.String("messaging.operation.type", "send")},
	runs:   []attribute.KeyValue{system, attribute.String("messaging.operation.name", "process"), attribute.String("messaging.operation.type", "process")},
}

// ruby are those of opentelemetry-instrumentation-sidekiq 0.29.
var ruby = names{
	push: "publish", run: "process", queueFirst: true, destination: "messaging.destination", message: "messaging.message_id",
	pushes: []attribute.KeyValue{system, attribute.String("messaging.destination_kind", "queue")},
	runs:   []attribute.KeyValue{system, attribute.String("messaging.destination_kind", "queue"), attribute.String("messaging.operation", "process")},
}

// span is the name of a span for a queue, "" if there is not just one.
func (n *names) span(verb, queue string) string {
	switch {
	case queue == "":
		return verb
	case n.queueFirst:
		return queue + " " + verb
	}
	return verb + " " + queue
}

// of returns all, and the attributes for a queue and a class that are not "".
func (n *names) of(all []attribute.KeyValue, queue, class string) []attribute.KeyValue {
	all = slices.Grow(slices.Clip(all), 3) // room for one more
	if queue != "" {
		all = append(all, n.destination.String(queue))
	}
	if class != "" {
		all = append(all, attribute.String("messaging.sidekiq.job_class", class))
	}
	return all
}
