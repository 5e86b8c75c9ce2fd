package supervisor

import "time"

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
	wait := l.backoff.Wait(r.restarts)
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
	return max(l.period, 2*b.Wait(restarts))
}

func (l *streaks) reset() { l.rows = nil }
