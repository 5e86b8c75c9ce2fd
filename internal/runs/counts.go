package runs

import (
	"sync"
	"time"

	"github.com/troupehq/troupe/internal/job"
)

// Counts are the runs of one slot, by the index of their class. The slot's worker counts, and
// the lock is free but while somebody adds up, or a run ends whose slot is another one's by
// now: on a cache line of its own it costs less than one counter that processors share.
type Counts struct {
	mu      sync.Mutex
	classes []*Totals // nil: none has ended
	_       [64]byte  // the next slot's are on another cache line
}

// NewCounts makes the Counts of a slot that runs so many classes.
func NewCounts(classes int) *Counts { return &Counts{classes: make([]*Totals, classes)} }

// Count counts a run of a class, as Totals.Count.
func (c *Counts) Count(class int, o job.Outcome, late bool, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.classes[class]
	if t == nil {
		t = new(Totals)
		c.classes[class] = t
	}
	t.Count(o, late, d)
}

// AddTo adds the counts to sums, which has as many classes.
func (c *Counts) AddTo(sums []Totals) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, t := range c.classes {
		if t != nil {
			sums[i].Add(t)
		}
	}
}

// Ended is how many runs have ended, and how many of them had an error: those that ended to go
// on later among them.
func (c *Counts) Ended() (n, failed uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.classes {
		if t != nil {
			n += t.Processed()
			failed += t.Failed() + t.Of(job.Interrupted)
		}
	}
	return n, failed
}
