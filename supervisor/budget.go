package supervisor

import (
	"fmt"
	"time"
)

// budget counts restarts within a sliding period, as OTP's add_restart does:
// old entries are pruned whenever one is added, so it never holds more than
// Intensity+1 of them. Its clock is monotonic (time.Time keeps the reading).
type budget struct {
	intensity int
	period    time.Duration
	times     []time.Time
}

// spend records a restart at now. It returns how many restarts the period holds
// with this one, and whether that is more than the budget allows.
func (b *budget) spend(now time.Time) (n int, exceeded bool) {
	b.prune(now)
	b.times = append(b.times, now)
	return len(b.times), len(b.times) > b.intensity
}

func (b *budget) count(now time.Time) int {
	b.prune(now)
	return len(b.times)
}

func (b *budget) prune(now time.Time) {
	keep := b.times[:0]
	for _, t := range b.times {
		if now.Sub(t) <= b.period {
			keep = append(keep, t)
		}
	}
	b.times = keep
}

func (b *budget) reset() { b.times = nil }

func (b *budget) String() string {
	return fmt.Sprintf("%d restarts in %s", b.intensity, b.period)
}
