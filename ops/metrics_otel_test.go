package ops

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/job"
)

// The reader of the SDK gets from the producer what a scrape shows.
func TestOpenTelemetryReadsTheSame(t *testing.T) {
	k := world(t)
	reader := sdk.NewManualReader(sdk.WithProducer(Producer(k.Daemon)))
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	defer func() { _ = provider.Shutdown(t.Context()) }()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.ScopeMetrics) != 1 || all.ScopeMetrics[0].Scope.Version != actors.Version {
		t.Fatalf("%+v", all.ScopeMetrics)
	}
	byName := map[string]metricdata.Metrics{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if byName[m.Name].Name != "" {
			t.Errorf("%s comes twice", m.Name)
		}
		byName[m.Name] = m
	}
	if len(byName) != len(daemonMetrics)-1 { // fetches and settlements are one
		t.Errorf("%d metrics, want %d", len(byName), len(daemonMetrics)-1)
	}
	messaging := func(operation string, rest ...attribute.KeyValue) attribute.Set {
		return attribute.NewSet(append(rest, attribute.String("messaging.system", "sidekiq"), attribute.String("messaging.operation.name", operation))...)
	}

	process := byName["messaging.process.duration"]
	times, ok := process.Data.(metricdata.Histogram[float64])
	if !ok || process.Unit != "s" || times.Temporality != metricdata.CumulativeTemporality || len(times.DataPoints) != 5 {
		t.Fatalf("%+v", process)
	}
	done := times.DataPoints[0]
	if want := messaging("process", attribute.String("messaging.sidekiq.job_class", "Done")); !done.Attributes.Equals(&want) {
		t.Errorf("attributes %v", done.Attributes.ToSlice())
	}
	sum := uint64(0)
	for _, n := range done.BucketCounts {
		sum += n
	}
	if done.Count != 20 || sum != 20 || len(done.BucketCounts) != len(done.Bounds)+1 || done.Bounds[4] != 0.02 || done.Sum <= 0 || done.StartTime.IsZero() || time.Since(done.Time) > time.Hour {
		t.Errorf("%+v", done)
	}

	consumed := byName["messaging.client.consumed.messages"]
	jobs, ok := consumed.Data.(metricdata.Sum[float64])
	want := messaging("receive", attribute.String("messaging.destination.name", "default"))
	if !ok || !jobs.IsMonotonic || consumed.Unit != "{message}" || len(jobs.DataPoints) != 1 || jobs.DataPoints[0].Value < 80 || !jobs.DataPoints[0].Attributes.Equals(&want) {
		t.Errorf("%+v", consumed)
	}

	calls, ok := byName["messaging.client.operation.duration"].Data.(metricdata.Histogram[float64])
	if !ok || len(calls.DataPoints) != 2 {
		t.Fatalf("%+v", calls)
	}
	for i, operation := range []string{"receive", "settle"} {
		if want := messaging(operation, attribute.String("capsule", "default")); !calls.DataPoints[i].Attributes.Equals(&want) || calls.DataPoints[i].Count == 0 {
			t.Errorf("%s: %+v", operation, calls.DataPoints[i])
		}
	}

	counted, ok := byName["troupe.job_runs"].Data.(metricdata.Sum[float64])
	if want := 5*(int(job.Ends)+1) - 4*5; !ok || len(counted.DataPoints) != want || byName["troupe.job_runs"].Unit != "1" { // each outcome and late, of 5 classes; of the 4 that have a name not what none of their jobs had: handed over, left, expired, held, called off
		t.Errorf("%d points, want %d: %+v", len(counted.DataPoints), want, counted)
	}
	up, ok := byName["troupe.redis_up"].Data.(metricdata.Gauge[float64])
	if !ok || len(up.DataPoints) != 1 || up.DataPoints[0].Value != 1 {
		t.Errorf("%+v", up)
	}
	if rtt := byName["troupe.redis_rtt"]; rtt.Unit != "s" {
		t.Errorf("%+v", rtt)
	}
}
