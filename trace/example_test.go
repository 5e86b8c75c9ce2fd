package trace_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/trace"
)

type Invoice struct {
	Number int `arg:"0"`
}

func (Invoice) Class() string { return "Invoice" }

// A request pushes a job. The job runs in a trace of its own, with a link to the push.
func Example() {
	mr, err := miniredis.Run() // a Redis inside this process
	if err != nil {
		panic(err)
	}
	defer mr.Close()
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr()})
	defer func() { _ = rdb.Close() }()

	spans := tracetest.NewSpanRecorder() // in place of an exporter
	tracing := trace.Config{Provider: sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))}

	c := client.New(rdb, trace.Client(tracing))
	ctx, request := tracing.Provider.Tracer("shop").Start(context.Background(), "POST /orders")
	if _, err := c.Push(ctx, Invoice{Number: 7}); err != nil {
		panic(err)
	}
	request.End()

	jobs := troupe.NewRegistry()
	ctx, stop := context.WithCancel(context.Background())
	troupe.Handle(jobs, func(context.Context, *troupe.Job[Invoice]) error {
		stop()
		return nil
	})
	err = actors.Run(ctx, actors.Config{
		Redis:      rdb,
		Registry:   jobs,
		Middleware: []troupe.Middleware{trace.Middleware(tracing)},
	})
	if err != nil {
		panic(err)
	}
	names := map[string]string{}
	for _, s := range spans.Ended() {
		names[s.SpanContext().SpanID().String()] = s.Name()
	}
	for _, s := range spans.Ended() {
		fmt.Print(s.Name())
		if s.Parent().IsValid() {
			fmt.Printf(", child of %s", names[s.Parent().SpanID().String()])
		}
		for _, link := range s.Links() {
			fmt.Printf(", linked to %s", names[link.SpanContext.SpanID().String()])
		}
		fmt.Println()
	}
	// Output:
	// send default, child of POST /orders
	// POST /orders
	// process default, linked to send default
}
