package ops

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/troupehq/troupe/actors"
)

// Producer returns the metrics of a daemon for OpenTelemetry: give it to a reader of the SDK
// with metric.WithProducer. Those for which OpenTelemetry has a convention, for messaging,
// have its names and attributes. The others are those of Collector with a dot after the prefix
// and no unit at the end: troupe.job_runs is troupe_job_runs_total.
func Producer(d *actors.Daemon) sdk.Producer { return producer{d.Metrics} }

type producer struct{ read func() actors.Metrics }

// convention is what OpenTelemetry calls a metric; the zero convention is none.
type convention struct{ messaging, operation string }

func (m *metric) like(messaging, operation string) *metric {
	m.convention = convention{messaging, operation}
	return m
}

// attributes are the labels that are called otherwise there.
var attributes = map[string]string{"class": "messaging.sidekiq.job_class", "queue": "messaging.destination.name"}

// Produce implements metric.Producer.
func (p producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	m, now := p.read(), time.Now()
	byName := map[string]*metricdata.Metrics{}
	var names []string
	for _, one := range pointsOf(m) {
		name, unit := one.otel()
		out := byName[name]
		if out == nil {
			out = &metricdata.Metrics{Name: name, Description: one.help, Unit: unit}
			byName[name], names = out, append(names, name)
		}
		out.Data = one.addTo(out.Data, m.Since, now)
	}
	scope := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: "github.com/troupehq/troupe", Version: actors.Version}}
	for _, name := range names {
		scope.Metrics = append(scope.Metrics, *byName[name])
	}
	return []metricdata.ScopeMetrics{scope}, nil
}

// otel is the name and the unit.
func (m *metric) otel() (name, unit string) {
	name, counts := strings.CutSuffix(strings.TrimPrefix(m.name, prefix), "_total")
	name, isTime := strings.CutSuffix(name, "_seconds")
	switch {
	case isTime:
		unit = "s"
	case counts && m.messaging != "":
		unit = "{message}"
	default:
		unit = "1"
	}
	if m.messaging != "" {
		return m.messaging, unit
	}
	return "troupe." + name, unit
}

// addTo adds a point to data; nil is none yet.
func (p point) addTo(data metricdata.Aggregation, since, now time.Time) metricdata.Aggregation {
	var set []attribute.KeyValue
	if p.messaging != "" {
		set = append(set, attribute.String("messaging.system", "sidekiq"), attribute.String("messaging.operation.name", p.operation))
	}
	for i, key := range p.keys {
		if name := attributes[key]; name != "" && p.messaging != "" {
			key = name
		}
		set = append(set, attribute.String(key, p.labels[i]))
	}
	one := metricdata.DataPoint[float64]{Attributes: attribute.NewSet(set...), StartTime: since, Time: now, Value: p.value}
	switch {
	case p.seconds:
		h, _ := data.(metricdata.Histogram[float64])
		h.Temporality = metricdata.CumulativeTemporality
		times := metricdata.HistogramDataPoint[float64]{
			Attributes: one.Attributes, StartTime: since, Time: now, BucketCounts: p.times.Counts, Sum: p.times.Sum.Seconds(),
		}
		for _, n := range p.times.Counts {
			times.Count += n
		}
		for _, limit := range p.times.Limits {
			times.Bounds = append(times.Bounds, limit.Seconds())
		}
		h.DataPoints = append(h.DataPoints, times)
		return h
	case p.kind == prometheus.CounterValue:
		s, _ := data.(metricdata.Sum[float64])
		s.Temporality, s.IsMonotonic = metricdata.CumulativeTemporality, true
		s.DataPoints = append(s.DataPoints, one)
		return s
	}
	g, _ := data.(metricdata.Gauge[float64])
	g.DataPoints = append(g.DataPoints, one)
	return g
}
