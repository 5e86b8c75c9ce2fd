package runs

import "time"

// Limits are the upper bounds, exclusive, of the buckets of a Histogram; one more bucket holds
// what took longer. From 20 ms on they are those of Sidekiq, which has one bucket below.
var Limits = [...]time.Duration{
	100 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 5 * time.Millisecond,
	20 * time.Millisecond, 30 * time.Millisecond, 45 * time.Millisecond, 65 * time.Millisecond, 100 * time.Millisecond,
	150 * time.Millisecond, 225 * time.Millisecond, 335 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond,
	1100 * time.Millisecond, 1700 * time.Millisecond, 2500 * time.Millisecond, 3800 * time.Millisecond, 5750 * time.Millisecond,
	8500 * time.Millisecond, 13 * time.Second, 20 * time.Second, 30 * time.Second, 45 * time.Second,
	65 * time.Second, 100 * time.Second, 150 * time.Second, 225 * time.Second, 335 * time.Second,
}

// Below is how many buckets of a Histogram are below the second one of Sidekiq.
const Below = 5

// Histogram counts time spans.
type Histogram struct {
	Buckets [len(Limits) + 1]uint64
	Sum     time.Duration
}

// Observe counts d, weight times.
func (h *Histogram) Observe(d time.Duration, weight uint64) {
	h.Buckets[bucket(d)] += weight
	h.Sum += d * time.Duration(weight)
}

func bucket(d time.Duration) int {
	for i, limit := range Limits {
		if d < limit {
			return i
		}
	}
	return len(Limits)
}

// Add adds o.
func (h *Histogram) Add(o *Histogram) {
	for i, n := range o.Buckets {
		h.Buckets[i] += n
	}
	h.Sum += o.Sum
}

// Coarse are the limits of Coarsened: every other one of Sidekiq's.
var Coarse = func() (limits []time.Duration) {
	limits = append(limits, Limits[:Below]...)
	for i := Below + 1; i < len(Limits); i += 2 {
		limits = append(limits, Limits[i])
	}
	return limits
}()

// Coarsened are the counts of the buckets that Coarse bounds, and of one more.
func (h *Histogram) Coarsened() []uint64 {
	counts := append(make([]uint64, 0, len(Coarse)+1), h.Buckets[:Below]...)
	for i := Below; i < len(Limits); i += 2 {
		counts = append(counts, h.Buckets[i]+h.Buckets[i+1])
	}
	return append(counts, h.Buckets[len(Limits)])
}
