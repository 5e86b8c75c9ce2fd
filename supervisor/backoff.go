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

// wait is the wait before the n-th restart in a row, n counted from 1:
// 0 for the first, Min × 2^(n−2) after it.
func (b Backoff) wait(n int) time.Duration {
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

// streaks counts restarts in a row, for the backoff: of each child, or of the
// group. The budget cannot tell: it is of all children, and it slides, so that a
// long wait would empty it and begin the next with none.
type streaks struct {
	backoff Backoff
	period  time.Duration
	rows    map[string]streak
}

type streak struct {
	restarts int
	up       time.Time // when the last of them is due
}

// climb counts a restart that is decided now and returns its wait.
func (l *streaks) climb(key string, now time.Time) time.Duration {
	r := l.rows[key]
	if now.Sub(r.up) > l.calm(r.restarts) {
		r = streak{}
	}
	r.restarts++
	wait := l.backoff.wait(r.restarts)
	r.up = now.Add(wait)
	if l.rows == nil {
		l.rows = map[string]streak{}
	}
	l.rows[key] = r
	return wait
}

// calm is how long a child must have stayed up after so many restarts.
func (l *streaks) calm(restarts int) time.Duration {
	b := l.backoff
	b.Jitter = 0
	return max(l.period, 2*b.wait(restarts))
}

func (l *streaks) reset() { l.rows = nil }
