package demo

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe"
)

const (
	rateWindow  = 3 * time.Second // over which a rate is averaged
	historySize = 60              // seconds of throughput that are kept
)

// meter turns counters into rates. It is not safe for concurrent use.
type meter struct {
	samples []sample // of the last rateWindow, oldest first
	mark    sample   // begin of the present second
	history []float64
}

type sample struct {
	at                time.Time
	processed, pushed uint64
}

// add records the counters at an instant.
func (m *meter) add(s sample) {
	if m.mark.at.IsZero() {
		m.mark = s
	}
	if span := s.at.Sub(m.mark.at); span >= time.Second {
		m.history = append(m.history, perSecond(m.mark.processed, s.processed, span))
		if len(m.history) > historySize {
			m.history = append(m.history[:0], m.history[1:]...)
		}
		m.mark = s
	}
	m.samples = append(m.samples, s)
	for len(m.samples) > 2 && s.at.Sub(m.samples[1].at) >= rateWindow {
		m.samples = append(m.samples[:0], m.samples[1:]...)
	}
}

// rates per second over the last rateWindow, or since the first sample.
func (m *meter) rates() (processed, pushed float64) {
	if len(m.samples) < 2 {
		return 0, 0
	}
	a, b := m.samples[0], m.samples[len(m.samples)-1]
	span := b.at.Sub(a.at)
	return perSecond(a.processed, b.processed, span), perSecond(a.pushed, b.pushed, span)
}

func perSecond(from, to uint64, span time.Duration) float64 {
	if span <= 0 || to < from {
		return 0
	}
	return float64(to-from) / span.Seconds()
}

// measures is what the demo counts and measures itself, beside the statistics of
// the daemon. It is safe for concurrent use.
type measures struct {
	began time.Time

	pushed       atomic.Uint64
	unpushed     atomic.Uint64 // pushes that ended with an error
	retried      atomic.Uint64 // runs that were a retry
	full         atomic.Bool   // the producer waits for the queues to get shorter
	unresponsive atomic.Bool   // the unresponsive job runs
	stop         atomic.Int64  // when the stop began, nanoseconds since the epoch; 0 before

	start latencies // from the push of a job to its first start
	late  latencies // from the time of a scheduled job to its start
}

// measure is server middleware: it looks at the clock when a job starts. Jobs
// from before this demo, which a real Redis may hold, are not measured.
func (b *measures) measure(next troupe.Handler) troupe.Handler {
	return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		if p.Failures() > 0 {
			b.retried.Add(1)
		} else if p.Class() != (scheduled{}).Class() {
			now := time.Now()
			if at, ok := p.Time("created_at"); ok && at.After(b.began) {
				b.start.add(now, now.Sub(at))
			}
		}
		return next.Perform(ctx, p)
	})
}

// stopping tells when the stop began; false before.
func (b *measures) stopping() (time.Time, bool) {
	at := b.stop.Load()
	return time.Unix(0, at), at != 0
}
