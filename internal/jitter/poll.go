package jitter

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/troupehq/troupe/internal/limits"
)

const (
	firstWait    = 10 * time.Second
	firstSpread  = 5 * time.Second
	fewProcesses = 10
)

// PollInterval is the wait between two looks at the sets (Sidekiq 8.1's poller).
// With n = max(1, processes), avg = average, or n × perProcess (0 is the default) if
// average is 0, and rand in [0, 1):
//
//	n < 10:  avg × rand + avg/2
//	n >= 10: avg × rand × 2
//
// so that the fleet as a whole looks once per perProcess on average, and a
// small fleet never waits longer than one and a half times the average.
// processes is the number of members of the set processes.
func PollInterval(processes int, average, perProcess time.Duration, r *rand.Rand) time.Duration {
	n := max(1, processes)
	avg := cmp.Or(max(0, average), time.Duration(n)*cmp.Or(max(0, perProcess), limits.PollEach))
	wait := r.Float64() * float64(avg)
	if n < fewProcesses {
		return time.Duration(wait) + avg/2
	}
	return time.Duration(2 * wait)
}

// FirstPoll is the wait before the first look of a process:
//
//	10 s + 5 s × rand, or 5 s × rand if average is set
//
// It gives the process time to appear in the set processes, and processes that
// start together different times.
func FirstPoll(average time.Duration, r *rand.Rand) time.Duration {
	wait := time.Duration(r.Float64() * float64(firstSpread))
	if average <= 0 {
		wait += firstWait
	}
	return wait
}
