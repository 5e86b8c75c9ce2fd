// Package limiter limits how many events of each name pass.
package limiter

import (
	"hash/maphash"
	"sync"
	"time"
)

// Limiter lets a burst of events of a name pass, and then one an interval. Its memory does
// not grow: a name has two slots, which it shares with other names. In the worst case their events count for it, too.
type Limiter struct {
	interval time.Duration // 0 is no limit
	burst    int
	seed     maphash.Seed

	mu    sync.Mutex
	slots [1 << 12]time.Time // when the whole burst is available again
}

// New returns a Limiter that lets burst events of a name pass at once, and then one each interval. With an
// interval of 0 all pass.
func New(interval time.Duration, burst int) *Limiter {
	return &Limiter{interval: interval, burst: burst, seed: maphash.MakeSeed()}
}

// Pass reports whether an event may pass, and counts it.
func (l *Limiter) Pass(name string) bool {
	if l.interval == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	hash, now := maphash.String(l.seed, name), time.Now()
	next := now
	mine := [2]*time.Time{&l.slots[hash%uint64(len(l.slots))], &l.slots[(hash>>32)%uint64(len(l.slots))]}
	if mine[0].After(now) && mine[1].After(now) {
		next = *mine[0]
		if mine[1].Before(next) {
			next = *mine[1]
		}
	}
	next = next.Add(l.interval)
	if next.Sub(now) > time.Duration(l.burst)*l.interval {
		return false
	}
	for _, slot := range mine {
		if slot.Before(next) {
			*slot = next
		}
	}
	return true
}
