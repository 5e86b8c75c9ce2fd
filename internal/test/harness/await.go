// Package harness has what tests share: waiting, how often to repeat, tests of what fails a
// test, and what the processes of a test tell.
package harness

import "time"

// Await asks every two milliseconds, for at most d, whether cond holds. It returns
// false if that was in vain.
func Await(d time.Duration, cond func() bool) bool {
	for deadline := time.Now().Add(d); !cond(); {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}
