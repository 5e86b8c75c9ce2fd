package strategy

import (
	"fmt"
	"time"
)

// budget counts restarts within a sliding period, as OTP's add_restart does:
// old entries are pruned whenever one is added, so it never holds more than
// Intensity of them. Its clock is monotonic (time.Time keeps the reading).
type budget struct {
	intensity int
	period    time.Duration
	times     []time.Time
}

// spend records a restart at now. It returns how many restarts the period holds
// with this one, and whether that is more than the budget allows; then it is not
// recorded, since there is none.
func (b *budget) spend(now time.Time) (n int, exceeded bool) {
	n = b.count(now) + 1
	if n > b.intensity {
		return n, true
	}
	b.times = append(b.times, now)
	return n, false
}

func (b *budget) count(now time.Time) int {
	b.times = prune(b.times, now, b.period)
	return len(b.times)
}

func (b *budget) reset() { b.times = nil }

func (b *budget) String() string {
	return fmt.Sprintf("%d restarts in %s", b.intensity, b.period)
}

// tally counts crashes by key within a sliding period: as far as tallyMax, so
// that a class that always crashes costs no memory.
type tally struct {
	period time.Duration
	times  map[string][]time.Time
}

const tallyMax = 100

func newTally(period time.Duration) tally {
	return tally{period: period, times: map[string][]time.Time{}}
}

// add counts a crash; it returns how many the period held before it.
func (t *tally) add(key string, now time.Time) int {
	times := prune(t.times[key], now, t.period)
	n := len(times)
	if n == tallyMax {
		times = append(times[:0], times[1:]...)
	}
	t.times[key] = append(times, now)
	return n
}

// prune drops from times, in place, what is older than period.
func prune(times []time.Time, now time.Time, period time.Duration) []time.Time {
	keep := times[:0]
	for _, t := range times {
		if now.Sub(t) <= period {
			keep = append(keep, t)
		}
	}
	return keep
}
