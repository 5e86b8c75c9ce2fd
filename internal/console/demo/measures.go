package demo

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe"
)

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
