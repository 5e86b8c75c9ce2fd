package ops

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/troupehq/troupe/actors"
)

// Collector returns the metrics of a daemon, to be registered with a registry of the
// program's own. What Daemon.Metrics has of other classes and queues than those it names is
// _other.
func Collector(d *actors.Daemon) prometheus.Collector { return collector{d.Metrics} }

// metricsHandler serves the metrics of daemons, of the Go runtime and of the process, from a
// registry of its own. Those of several daemons have the label shard, the number of the daemon
// from 0 on.
func metricsHandler(daemons []*actors.Daemon) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for i, d := range daemons {
		var to prometheus.Registerer = registry
		if len(daemons) > 1 {
			to = prometheus.WrapRegistererWith(prometheus.Labels{"shard": strconv.Itoa(i)}, registry)
		}
		to.MustRegister(Collector(d))
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{CoalesceGather: true})
}

// collector has what read returns for Prometheus.
type collector struct{ read func() actors.Metrics }

func (collector) Describe(ch chan<- *prometheus.Desc) { describe(ch, daemonMetrics) }

func (c collector) Collect(ch chan<- prometheus.Metric) { pointsOf(c.read()).collect(ch) }

// metric is a metric that is exposed.
type metric struct {
	kind       prometheus.ValueType
	seconds    bool   // it is a histogram of them
	name       string // for Prometheus
	help       string
	keys       []string // of its labels
	desc       *prometheus.Desc
	convention // for OpenTelemetry
}

const prefix = "troupe_"

func newMetric(kind prometheus.ValueType, name, help string, labels ...string) *metric {
	return &metric{kind: kind, name: prefix + name, help: help, keys: labels, desc: prometheus.NewDesc(prefix+name, help, labels, nil)}
}

func counter(name, help string, labels ...string) *metric {
	return newMetric(prometheus.CounterValue, name, help, labels...)
}

func gauge(name, help string, labels ...string) *metric {
	return newMetric(prometheus.GaugeValue, name, help, labels...)
}

func histogram(name, help string, labels ...string) *metric {
	m := newMetric(prometheus.UntypedValue, name, help, labels...)
	m.seconds = true
	return m
}

func describe(ch chan<- *prometheus.Desc, metrics []*metric) {
	for _, m := range metrics {
		ch <- m.desc
	}
}

// point is the value of a metric with these values of its labels.
type point struct {
	*metric
	value  float64
	times  actors.Histogram
	labels []string
}

type points []point

func (p *points) add(m *metric, v float64, labels ...string) {
	*p = append(*p, point{metric: m, value: v, labels: labels})
}

func (p *points) observe(m *metric, times actors.Histogram, labels ...string) {
	*p = append(*p, point{metric: m, times: times, labels: labels})
}

func (p points) collect(ch chan<- prometheus.Metric) {
	for _, one := range p {
		if !one.seconds {
			ch <- prometheus.MustNewConstMetric(one.desc, one.kind, one.value, one.labels...)
			continue
		}
		count, below := uint64(0), make(map[float64]uint64, len(one.times.Limits))
		for i, n := range one.times.Counts {
			if count += n; i < len(one.times.Limits) {
				below[one.times.Limits[i].Seconds()] = count
			}
		}
		ch <- prometheus.MustNewConstHistogram(one.desc, count, one.times.Sum.Seconds(), below, one.labels...)
	}
}
