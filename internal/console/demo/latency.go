package demo

import (
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// latencyWindow is how far back percentiles look.
	latencyWindow = 10 * time.Second
	// latencySamples holds a window at the highest rate, retries included.
	latencySamples = 16 * maxRate
)

// latencies keeps the durations of the last latencyWindow. The zero value is
// ready; it is safe for concurrent use and never grows beyond 256 KB.
type latencies struct {
	mu   sync.Mutex
	ring []latency
	next int // where the next one goes, once the ring is full
}

type latency struct {
	at int64 // nanoseconds since the epoch
	d  time.Duration
}

// add records d, measured at now. A negative one, of a clock that was set back
// or of a time that was rounded, counts as 0.
func (l *latencies) add(now time.Time, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := latency{now.UnixNano(), max(d, 0)}
	if len(l.ring) < latencySamples {
		l.ring = append(l.ring, s)
		return
	}
	l.ring[l.next] = s
	l.next = (l.next + 1) % len(l.ring)
}

// percentiles of the durations recorded within a window.
type percentiles struct {
	P50, P99 time.Duration
	N        int // 0 means that there is nothing to tell
}

// percentiles of what was recorded in the window before now.
func (l *latencies) percentiles(now time.Time) percentiles {
	oldest := now.Add(-latencyWindow).UnixNano()
	var ds []time.Duration
	l.mu.Lock()
	for _, s := range l.ring {
		if s.at > oldest {
			ds = append(ds, s.d)
		}
	}
	l.mu.Unlock()
	slices.Sort(ds)
	return percentiles{P50: percentile(ds, 50), P99: percentile(ds, 99), N: len(ds)}
}

// percentile is the smallest element that p percent of all are not above
// (nearest rank); 0 if there are none.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
