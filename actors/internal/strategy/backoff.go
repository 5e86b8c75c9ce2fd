package strategy

import (
	"math/rand/v2"
	"time"

	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/supervisor"
)

const maxBackoff = time.Hour

// wait is the wait of b before the n-th restart in a row, n counted from 1:
// 0 for the first, Min × 2^(n−2) after it.
func wait(b supervisor.Backoff, n int) time.Duration {
	if b.Min <= 0 || n <= 1 {
		return 0
	}
	limit := b.Max
	if limit <= 0 {
		limit = maxBackoff
	}
	d := jitter.Doubled(b.Min, limit, n-2)
	if j := min(max(b.Jitter, 0), 1); j > 0 {
		d -= time.Duration(j * rand.Float64() * float64(d))
	}
	return d
}

// streaks counts restarts in a row, for the backoff: of each child, or of the
// group. The budget cannot tell: it is of all children, and it slides, so that a
// long wait would empty it and begin the next with none.
type streaks struct {
	backoff supervisor.Backoff
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
	if now.Sub(r.up) > l.stableAfter(r.restarts) {
		r = streak{}
	}
	r.restarts++
	pause := wait(l.backoff, r.restarts)
	r.up = now.Add(pause)
	if l.rows == nil {
		l.rows = map[string]streak{}
	}
	l.rows[key] = r
	return pause
}

// stableAfter is how long a child must have stayed up after so many restarts, so that its streak is over.
func (l *streaks) stableAfter(restarts int) time.Duration {
	b := l.backoff
	b.Jitter = 0
	return max(l.period, 2*wait(b, restarts))
}

func (l *streaks) reset() { l.rows = nil }
