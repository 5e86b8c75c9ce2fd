package supervisor

import (
	"math/rand/v2"
	"time"
)

// Backoff is the wait before a restart: none before the first of a child, then
// Min, doubled with every further one, never more than Max, then spread by Jitter.
// A child that has stayed up for a period, and for twice as long as it waited
// last, begins anew. Children that restart together count together. The zero value
// never waits.
type Backoff struct {
	Min    time.Duration // wait before the second restart; 0 means none
	Max    time.Duration // cap; 0 means no cap but 1 h
	Jitter float64       // share of the wait that is random, 0 to 1: d × (1 − Jitter × rand)
}

const maxBackoff = time.Hour

// Wait is the wait before the n-th restart in a row, n counted from 1:
// 0 for the first, Min × 2^(n−2) after it.
func (b Backoff) Wait(n int) time.Duration {
	if b.Min <= 0 || n <= 1 {
		return 0
	}
	limit := b.Max
	if limit <= 0 {
		limit = maxBackoff
	}
	d := b.Min
	for i := 2; i < n && d < limit; i++ {
		d *= 2
	}
	d = min(d, limit)
	if j := min(max(b.Jitter, 0), 1); j > 0 {
		d -= time.Duration(j * rand.Float64() * float64(d))
	}
	return d
}
