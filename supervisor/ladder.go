package supervisor

import "time"

// ladder counts restarts in a row, for the backoff: of each child, or of the
// group. The budget cannot tell: it is of all children, and it slides, so that a
// long wait would empty it and begin the next with none.
type ladder struct {
	backoff Backoff
	period  time.Duration
	rungs   map[string]rung
}

type rung struct {
	restarts int
	up       time.Time // when the last of them is due
}

// climb counts a restart that is decided now and returns its wait.
func (l *ladder) climb(key string, now time.Time) time.Duration {
	r := l.rungs[key]
	if now.Sub(r.up) > l.calm(r.restarts) {
		r = rung{}
	}
	r.restarts++
	wait := l.backoff.Wait(r.restarts)
	r.up = now.Add(wait)
	if l.rungs == nil {
		l.rungs = map[string]rung{}
	}
	l.rungs[key] = r
	return wait
}

// calm is how long a child must have stayed up after so many restarts.
func (l *ladder) calm(restarts int) time.Duration {
	b := l.backoff
	b.Jitter = 0
	return max(l.period, 2*b.Wait(restarts))
}

func (l *ladder) reset() { l.rungs = nil }
