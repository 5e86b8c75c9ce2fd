package trace_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/trace"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent  = "00-" + traceID + "-00f067aa0ba902b7-01"
)

// remote is a context with the span of another process.
func remote(ctx context.Context, flags string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent[:len(parent)-2] + flags})
}

// pushes are all ways to push.
var pushes = map[string]func(ctx context.Context, c *client.Client) error{
	"Push": func(ctx context.Context, c *client.Client) error {
		_, err := c.Push(ctx, order{1}, client.JID("a"))
		return err
	},
	"Push, scheduled": func(ctx context.Context, c *client.Client) error {
		_, err := c.Push(ctx, order{1}, client.JID("a"), client.In(time.Hour))
		return err
	},
	"PushClass": func(ctx context.Context, c *client.Client) error {
		_, err := c.PushClass(ctx, "Order", []any{1}, client.JID("a"))
		return err
	},
	"PushMany": func(ctx context.Context, c *client.Client) error {
		_, err := c.PushMany(ctx, client.Job(order{1}, client.JID("a")), client.Job(mail{}, client.JID("b")))
		return err
	},
	"PushPayload": func(ctx context.Context, c *client.Client) error {
		_, err := c.PushPayload(ctx, payload(`{"class":"Order","args":[1],"jid":"a"}`))
		return err
	},
}

func payload(text string) *troupe.Payload {
	p, err := troupe.ParsePayload([]byte(text))
	if err != nil {
		panic(err)
	}
	return p
}

// Without a sampled span the bytes are those of a client without the option, and there is
// no span; with one they have 72 more.
func TestWhatAPushWrites(t *testing.T) {
	keep := func(next client.PushFunc) client.PushFunc { return next }
	for name, push := range pushes {
		synctest.Test(t, func(t *testing.T) { // where it is the same time for all
			r := record()
			for _, mw := range [][]client.ClientOption{nil, {client.WithMiddleware(keep)}} {
				write := func(ctx context.Context, opts ...client.ClientOption) (texts []string) {
					q := testkit.Fake(t, append(opts, mw...)...)
					harness.OK(t, push(ctx, q.Client))
					for _, p := range q.All() {
						texts = append(texts, string(p.Bytes()))
					}
					return texts
				}
				bare := write(t.Context())
				for ctx, what := range map[context.Context]string{t.Context(): "no span", remote(t.Context(), "00"): "an unsampled span"} {
					if got := write(ctx, trace.Client(r.config())); !slices.Equal(got, bare) {
						t.Errorf("%s with %s wrote %q, want %q", name, what, got, bare)
					}
				}
				if len(r.Started()) != 0 {
					t.Errorf("%s: there are %s", name, r)
				}
				for i, got := range write(remote(t.Context(), "01"), trace.Client(r.config())) {
					p := payload(got)
					if len(got) != len(bare[i])+72 || !strings.HasPrefix(carried(p), "00-"+traceID) || !strings.HasSuffix(carried(p), "-01") {
						t.Errorf("%s wrote %s", name, got)
					}
					if p.Delete("traceparent"); string(p.Bytes()) != bare[i] {
						t.Errorf("%s wrote %s beside the field, want %s", name, p.Bytes(), bare[i])
					}
				}
				harness.Equal(t, name+": spans have ended", len(r.Ended()), 1)
				r.Reset()
			}
		})
	}
}

// The fields of a job stand where Ruby's client middleware puts them: before enqueued_at.
func TestTheFieldStandsWhereRubyPutsIt(t *testing.T) {
	r := record()
	q := testkit.Fake(t, trace.Client(r.config()))
	harness.Must(q.Client.Push(remote(t.Context(), "01"), order{1}))(t)
	got := slices.Collect(q.All()[0].Keys())
	if want := []string{"retry", "queue", "class", "args", "jid", "created_at", "traceparent", "enqueued_at"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// silent is a client of no Redis: pushes cost what happens before.
func silent(tb testing.TB) *redis.Client {
	tb.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", MaxRetries: -1})
	rdb.AddHook(noRedis{})
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

type noRedis struct{}

func (noRedis) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (noRedis) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (noRedis) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return nil }
}

func TestAnUnsampledPushAllocatesNothingMore(t *testing.T) {
	rdb := silent(t)
	r := record()
	bare, traced := client.New(rdb), client.New(rdb, trace.Client(r.config()))
	for name, push := range pushes {
		for what, ctx := range map[string]context.Context{"no span": t.Context(), "an unsampled span": remote(t.Context(), "00")} {
			count := func(c *client.Client) float64 {
				return testing.AllocsPerRun(100, func() {
					harness.OK(t, push(ctx, c))
				})
			}
			if without, with := count(bare), count(traced); with > without {
				t.Errorf("%s with %s: %v allocations, %v without the option", name, what, with, without)
			}
		}
	}
	if len(r.Started()) != 0 {
		t.Errorf("there are %s", r)
	}
}

func TestABulkHasOneSpan(t *testing.T) {
	r := record()
	q := testkit.Fake(t, trace.Client(r.config()))
	ctx, _ := r.request(t.Context())
	numbers := func(yield func(order) bool) {
		for i := range 2500 {
			if !yield(order{i}) {
				return
			}
		}
	}
	harness.Must(client.PushBulk(ctx, q.Client, iter.Seq[order](numbers)))(t)
	push := r.only(t, "send orders")
	equal(t, "PushBulk", attributes(push), map[string]string{
		"messaging.system": "sidekiq", "messaging.operation.name": "send", "messaging.operation.type": "send",
		"messaging.destination.name": "orders", "messaging.sidekiq.job_class": "Order", "messaging.batch.message_count": "2500",
	})
	id := push.SpanContext().SpanID().String()
	for _, p := range q.All() {
		if !strings.Contains(carried(p.Payload), id) {
			t.Fatalf("job %s carries %s, want %s", p.JID(), carried(p.Payload), id)
		}
	}

	harness.Must(q.Client.PushMany(ctx, client.Job(order{1}), client.Job(mail{}), client.Job(mail{})))(t)
	equal(t, "PushMany", attributes(r.only(t, "send")), map[string]string{
		"messaging.system": "sidekiq", "messaging.operation.name": "send", "messaging.operation.type": "send", "messaging.batch.message_count": "3",
	})
	if n := len(r.Started()); n != 3 {
		t.Errorf("there are %s", r)
	}
}

// A context that a job carries stays, whoever gave it.
func TestACarriedContextIsKept(t *testing.T) {
	r := record()
	q := testkit.Fake(t, trace.Client(r.config()))
	ctx, _ := r.request(t.Context())
	harness.Must(q.Client.PushPayload(ctx, payload(`{"class":"Order","queue":"orders","args":[1],"traceparent":"`+parent+`"}`)))(t)
	push := r.only(t, "send orders")
	if l := push.Links(); len(l) != 1 || l[0].SpanContext.TraceID().String() != traceID || push.SpanKind() != oteltrace.SpanKindClient {
		t.Errorf("a span of kind %v, linked to %v", push.SpanKind(), l)
	}
	harness.Must(q.Client.Push(ctx, order{1}, client.Set("traceparent", parent)))(t)
	harness.Must(q.Client.PushMany(ctx, client.Job(order{1}, client.Set("traceparent", parent)), client.Job(order{2})))(t)
	all := q.All()
	for _, p := range all[:3] {
		if text := string(p.Bytes()); carried(p.Payload) != parent || strings.Count(text, "traceparent") != 1 {
			t.Errorf("pushed %s", text)
		}
	}
	if got := carried(all[3].Payload); got == parent || got == "" {
		t.Errorf("the job beside it carries %q", got)
	}
	// what is no context is none
	r.Reset()
	harness.Must(q.Client.PushPayload(ctx, payload(`{"class":"Order","queue":"orders","args":[1],"traceparent":"odd"}`)))(t)
	if got, id := carried(q.All()[4].Payload), r.only(t, "send orders").SpanContext().SpanID().String(); !strings.Contains(got, id) {
		t.Errorf("carries %q, want %s", got, id)
	}
}

// What the poller and package inspect push on keeps its bytes, also where they push in a
// sampled span.
func TestAJobThatIsPushedOnKeepsWhatItCarries(t *testing.T) {
	r := record()
	c := client.New(silent(t), trace.Client(r.config()))
	ctx, _ := r.request(t.Context())
	now := time.Unix(1795225000, 0)
	for _, field := range []string{"", `,"traceparent":"` + parent + `","tracestate":"a=b"`} {
		text := `{"retry":true,"queue":"orders","class":"Order","args":[1],"jid":"j","created_at":1.5` + field + `,"enqueued_at":1795225000.0}`
		p := harness.Must(c.Prepare(ctx, payload(text), now))(t)
		if got := string(p.Bytes()); got != text {
			t.Errorf("got %s\nwant %s", got, text)
		}
	}
	if n := len(r.Started()); n != 1 {
		t.Errorf("there are %s", r)
	}
}

func TestBaggageAndTracestateGoAlong(t *testing.T) {
	for _, only := range []bool{false, true} {
		r := record()
		cfg := r.config()
		if only {
			cfg.Propagator = propagation.TraceContext{}
		}
		q := testkit.Fake(t, trace.Client(cfg))
		member := harness.Must(baggage.NewMemberRaw("tenant", `a "b" é`))(t)
		bag := harness.Must(baggage.New(member))(t)
		ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": parent, "tracestate": `vendor="x\y"`})
		harness.Must(q.Client.Push(baggage.ContextWithBaggage(ctx, bag), order{1}))(t)
		p := q.All()[0]
		state, _ := p.String("tracestate")
		if _, has := p.Get("baggage"); has == only || state != `vendor="x\y"` {
			t.Errorf("pushed %s", p.Bytes())
		}
		drain(t, q, func(ctx context.Context, _ *troupe.Job[order]) error {
			got := baggage.FromContext(ctx).Member("tenant").Value()
			if want := map[bool]string{false: `a "b" é`, true: ""}[only]; got != want {
				t.Errorf("the handler got %q, want %q", got, want)
			}
			return nil
		}, cfg)
		if l := r.only(t, "process orders").Links(); len(l) != 1 || l[0].SpanContext.TraceState().String() != state {
			t.Errorf("linked to %v", l)
		}
	}
}

// A push that Redis refuses is an error, and so is one that never got there.
func TestAFailedPushIsAnError(t *testing.T) {
	r := record()
	rdb := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:0", MaxRetries: -1, DialerRetries: 1,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way") },
	})
	t.Cleanup(func() { _ = rdb.Close() })
	refuses := func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			if p.Class() == "Mail" {
				return errors.New("not now")
			}
			return next(ctx, p)
		}
	}
	c := client.New(rdb, trace.Client(r.config()), client.WithMiddleware(refuses))
	ctx, _ := r.request(t.Context())
	for name, push := range map[string]func() error{
		"a push":       func() error { _, err := c.Push(ctx, order{1}); return err },
		"a payload":    func() error { _, err := c.PushPayload(ctx, payload(`{"class":"Order","args":[]}`)); return err },
		"a bulk":       func() error { _, err := client.PushBulk(ctx, c, slices.Values([]order{{1}})); return err },
		"many":         func() error { _, err := c.PushMany(ctx, client.Job(order{1})); return err },
		"a middleware": func() error { _, err := c.Push(ctx, mail{}); return err },
	} {
		r.Reset()
		err := push()
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		ended := r.Ended()
		if len(ended) != 1 {
			t.Fatalf("%s: there are %s", name, r)
		}
		if s := ended[0].Status(); s.Code != codes.Error || s.Description != err.Error() || attributes(ended[0])["error.type"] == "" {
			t.Errorf("%s: status %v, attributes %v, error %v", name, s, attributes(ended[0]), err)
		}
	}
}

// Client middleware sees the fields, and its context has the span.
func TestMiddlewareSeesTheSpan(t *testing.T) {
	r := record()
	var seen []string
	look := func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			seen = append(seen, fmt.Sprint(strings.Contains(carried(p), oteltrace.SpanContextFromContext(ctx).SpanID().String())))
			return next(ctx, p)
		}
	}
	q := testkit.Fake(t, trace.Client(r.config()), client.WithMiddleware(look))
	ctx, _ := r.request(t.Context())
	for name, push := range pushes {
		if err := push(ctx, q.Client); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if want := slices.Repeat([]string{"true"}, len(pushes)+1); !slices.Equal(seen, want) {
		t.Errorf("got %q", seen)
	}
}

// A sampler that drops the span of the push keeps the job clean.
func TestASpanThatIsDroppedLeavesTheJobAlone(t *testing.T) {
	for name, sampler := range map[string]sdk.Sampler{"dropped": sdk.NeverSample(), "recorded only": recordOnly{}} {
		r := record(sdk.WithSampler(sampler))
		q := testkit.Fake(t, trace.Client(r.config()))
		harness.Must(q.Client.Push(remote(t.Context(), "01"), order{1}))(t)
		harness.Equal(t, name+": carries", carried(q.All()[0].Payload), "")
		if len(r.Started()) != len(r.Ended()) {
			t.Errorf("%s: a span has not ended", name)
		}
	}
}

type recordOnly struct{}

func (recordOnly) ShouldSample(sdk.SamplingParameters) sdk.SamplingResult {
	return sdk.SamplingResult{Decision: sdk.RecordOnly}
}
func (recordOnly) Description() string { return "recordOnly" }
