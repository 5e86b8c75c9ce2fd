package demo

import (
	"context"
	"testing"
	"time"

	"github.com/troupehq/troupe"
)

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, tt := range []struct {
		name   string
		sorted []time.Duration
		p      float64
		want   time.Duration
	}{
		{"none", nil, 50, 0},
		{"one", []time.Duration{7}, 99, 7},
		{"median of two is the lower", []time.Duration{1, 2}, 50, 1},
		{"median of three", []time.Duration{1, 2, 9}, 50, 2},
		{"p99 of few is the highest", []time.Duration{1, 2, 9}, 99, 9},
		{"p50 of a hundred", hundred, 50, 50},
		{"p99 of a hundred", hundred, 99, 99},
		{"p0", hundred, 0, 1},
		{"p100", hundred, 100, 100},
	} {
		if got := percentile(tt.sorted, tt.p); got != tt.want {
			t.Errorf("%s: got %d, expected %d", tt.name, got, tt.want)
		}
	}
}

func TestLatenciesForgetWhatIsOld(t *testing.T) {
	var l latencies
	if got := l.percentiles(noon); got != (percentiles{}) {
		t.Errorf("nothing recorded: %+v", got)
	}
	l.add(noon, time.Hour)
	l.add(noon.Add(time.Second), -time.Second)
	l.add(noon.Add(2*time.Second), 30)
	if got, want := l.percentiles(noon.Add(3*time.Second)), (percentiles{P50: 30, P99: time.Hour, N: 3}); got != want {
		t.Errorf("got %+v, expected %+v", got, want)
	}
	if got, want := l.percentiles(noon.Add(latencyWindow)), (percentiles{P50: 0, P99: 30, N: 2}); got != want {
		t.Errorf("got %+v, expected %+v", got, want)
	}
}

func TestLatenciesAreBounded(t *testing.T) {
	var l latencies
	for i := range latencySamples + 10 {
		l.add(noon, time.Duration(i))
	}
	got := l.percentiles(noon)
	if want := time.Duration(10 + latencySamples/2 - 1); len(l.ring) != latencySamples || got.N != latencySamples || got.P50 != want {
		t.Errorf("%d kept, %+v; expected %d, p50 %d", len(l.ring), got, latencySamples, want)
	}
}

func TestDemoMeasuresFirstStartsOfItsOwn(t *testing.T) {
	b := &measures{began: time.Now().Add(-time.Second)}
	h := b.measure(troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
	run := func(class string, created time.Time, retries int) {
		var p troupe.Payload
		p.SetString("class", class)
		p.SetTime("created_at", created, troupe.TimestampsFloat)
		if retries > 0 {
			p.SetInt("retry_count", int64(retries-1))
		}
		if err := h.Perform(context.Background(), &p); err != nil {
			t.Fatal(err)
		}
	}
	run("Demo::Quick", time.Now(), 0)
	run("Demo::Quick", time.Now(), 1)                 // a retry
	run("Demo::Scheduled", time.Now(), 0)             // measured from its due time, by its handler
	run("Demo::Quick", time.Now().Add(-time.Hour), 0) // of an earlier demo
	run("Demo::Quick", b.began.Add(time.Millisecond), 0)
	now := time.Now()
	if got := b.start.percentiles(now); got.N != 2 || got.P99 < 900*time.Millisecond || b.retried.Load() != 1 {
		t.Errorf("%+v, %d retried; expected 2 starts, the later after about a second, and 1 retried", got, b.retried.Load())
	}
}
