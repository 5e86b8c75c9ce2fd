package supervisor

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
