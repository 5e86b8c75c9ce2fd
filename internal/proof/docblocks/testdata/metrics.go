package testdata

import (
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/troupehq/troupe/actors"
)

var (
	d        *actors.Daemon
	exporter metric.Exporter
)
