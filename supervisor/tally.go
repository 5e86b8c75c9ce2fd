package supervisor

import "time"

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
