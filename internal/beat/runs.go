package beat

import (
	"sync/atomic"
	"time"
)

// limits are the upper bounds, exclusive, of the buckets of Sidekiq's run-time
// histogram; one more bucket holds what took longer.
var limits = [...]time.Duration{
	20 * time.Millisecond, 30 * time.Millisecond, 45 * time.Millisecond, 65 * time.Millisecond, 100 * time.Millisecond,
	150 * time.Millisecond, 225 * time.Millisecond, 335 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond,
	1100 * time.Millisecond, 1700 * time.Millisecond, 2500 * time.Millisecond, 3800 * time.Millisecond, 5750 * time.Millisecond,
	8500 * time.Millisecond, 13 * time.Second, 20 * time.Second, 30 * time.Second, 45 * time.Second,
	65 * time.Second, 100 * time.Second, 150 * time.Second, 225 * time.Second, 335 * time.Second,
}

const buckets = len(limits) + 1

// Runs counts the runs of one class of jobs since the last flush. Counting costs
// three atomic additions, no allocation and no lock. A nil *Runs counts nothing.
type Runs struct {
	class   string
	all     atomic.Int64 // last to be added, first to be looked at: the others may only be ahead of it
	failed  atomic.Int64
	time    atomic.Int64 // ns of the timed ones
	buckets [buckets]atomic.Int64
}

// Timed counts a run whose time tells something: a success, or one that was
// interrupted to go on later.
func (r *Runs) Timed(d time.Duration) {
	if r == nil {
		return
	}
	r.buckets[bucket(d)].Add(1)
	r.time.Add(int64(d))
	r.all.Add(1)
}

// Failed counts a run that ended with an error. How long that took depends on
// the fault more than on the job, so Sidekiq leaves the time out.
func (r *Runs) Failed() {
	if r == nil {
		return
	}
	r.failed.Add(1)
	r.all.Add(1)
}

func bucket(d time.Duration) int {
	for i, limit := range limits {
		if d < limit {
			return i
		}
	}
	return len(limits)
}

// counts is what was taken from all Runs of one class.
type counts struct {
	class       string
	all, failed int64
	ms          int64
	timed       bool
	buckets     [buckets]int64
}

// moveTo takes the counters to zero and adds what they had to c. Parts of a
// millisecond stay: the sum over many short jobs is right, where Ruby, whose
// clock here has whole milliseconds, relies on its error to cancel out.
func (r *Runs) moveTo(c *counts) {
	c.all += r.all.Swap(0)
	c.failed += r.failed.Swap(0)
	ms := r.time.Load() / int64(time.Millisecond)
	r.time.Add(-ms * int64(time.Millisecond))
	c.ms += ms
	for i := range r.buckets {
		if n := r.buckets[i].Swap(0); n > 0 {
			c.buckets[i] += n
			c.timed = true
		}
	}
}
