// Package await waits in tests for what has no signal.
package await

import "time"

// Until asks every two milliseconds, for at most d, whether cond holds. It returns
// false if that was in vain.
func Until(d time.Duration, cond func() bool) bool {
	for deadline := time.Now().Add(d); !cond(); {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}
