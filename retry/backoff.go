package retry

import "math/bits"

// maxWait bounds wait and jitter, to keep scores within dates that people and
// programs can print: some 6,000 years. The formula reaches it at the 669th retry.
const maxWait = 2e11

// backoff returns Sidekiq's wait before the next attempt, in seconds and
// without jitter; count is 0 after the first failure.
//
//	count⁴ + 15    15, 16, 31, 96, 271, … about 20 days in all for 25 retries
func backoff(count int64) float64 {
	n := float64(count)
	return n*n*n*n + 15
}

// jitter returns whole seconds in [0, 10·(count+1)), so that jobs that failed
// together do not come back together: the share of the range that random is of
// all 64-bit numbers.
func jitter(random uint64, count int64) float64 {
	whole, _ := bits.Mul64(random, uint64(10*(count+1)))
	return float64(whole)
}
