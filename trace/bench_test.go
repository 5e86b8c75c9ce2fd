package trace_test

import (
	"context"
	"slices"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/trace"
)

// BenchmarkPush is what a push costs before Redis: without the option, with it and no
// sampled span (no allocation more), and with a span.
func BenchmarkPush(b *testing.B) {
	provider := trace.Config{Provider: sdk.NewTracerProvider()}
	for name, c := range map[string]*client.Client{"bare": client.New(silent(b)), "traced": client.New(silent(b), trace.Client(provider))} {
		for what, ctx := range map[string]context.Context{"none": b.Context(), "unsampled": remote(b.Context(), "00"), "sampled": remote(b.Context(), "01")} {
			b.Run("client="+name+"/span="+what, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Push(ctx, order{1}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkPushBulk is that of 1,000 jobs.
func BenchmarkPushBulk(b *testing.B) {
	c := client.New(silent(b), trace.Client(trace.Config{Provider: sdk.NewTracerProvider()}))
	orders := slices.Repeat([]order{{1}}, 1000)
	for what, ctx := range map[string]context.Context{"none": b.Context(), "sampled": remote(b.Context(), "01")} {
		b.Run("span="+what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.PushBulk(ctx, c, slices.Values(orders)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRun is what the middleware costs around a handler that does nothing.
func BenchmarkRun(b *testing.B) {
	h := troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil })
	text := []byte(`{"retry":true,"queue":"orders","class":"Order","args":[1],"jid":"0123456789abcdef01234567","created_at":1795224881.1534805,` +
		`"traceparent":"` + parent + `","enqueued_at":1795224881.153557}`)
	ctx := testkit.Context(b, troupe.JobInfo{Queue: "orders"})
	for name, h := range map[string]troupe.Handler{
		"bare":      h,
		"noop":      trace.Middleware(trace.Config{Provider: noop.NewTracerProvider()})(h),
		"unsampled": trace.Middleware(trace.Config{Provider: sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample()))})(h),
		"sampled":   trace.Middleware(trace.Config{Provider: sdk.NewTracerProvider()})(h),
	} {
		b.Run("tracer="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := troupe.ParsePayload(text)
				if err == nil {
					err = h.Perform(ctx, p)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
