// Package harness has what tests share: waiting, ends at errors, a log that can be read,
// how often to repeat, tests of what fails a test, and what the processes of a test tell.
package harness

import "time"

// Patience is how long Await waits.
const Patience = time.Minute

// Await waits until cond holds, and after a minute ends the test, which then says what
// was awaited.
func Await(t Test, what string, cond func() bool) {
	t.Helper()
	AwaitFor(t, Patience, what, cond)
}

// AwaitFor is Await with another limit.
func AwaitFor(t Test, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	if !Within(limit, cond) {
		t.Fatalf("not within %s: %s", limit, what)
	}
}

// Within asks every two milliseconds, for at most d, whether cond holds. It returns
// false if that was in vain.
func Within(d time.Duration, cond func() bool) bool {
	for deadline := time.Now().Add(d); !cond(); {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}
