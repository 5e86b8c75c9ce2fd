package testdata

import sdktrace "go.opentelemetry.io/otel/sdk/trace"

var exporter sdktrace.SpanExporter
