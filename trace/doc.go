// Package trace traces jobs with OpenTelemetry, linked with those that Ruby's
// opentelemetry-instrumentation-sidekiq traces. Both store the context of a push in the
// fields traceparent, tracestate and baggage of the job. Both begin a trace of its own for
// each run, with a link to the push.
//
//	c := client.New(rdb, trace.Client(trace.Config{}))
//	err := actors.Run(ctx, actors.Config{
//		Redis:      rdb,
//		Registry:   &jobs,
//		Middleware: []troupe.Middleware{trace.Middleware(trace.Config{})},
//	})
//
// It needs the API of OpenTelemetry only: the program brings the SDK and its exporter, and
// sets them with otel.SetTracerProvider or in Config. A program that does not import
// this package pays nothing.
//
// A job keeps the context of its push from the schedule set to its queue and from one attempt to the
// next, so each attempt has a span that is linked to the same push.
package trace
