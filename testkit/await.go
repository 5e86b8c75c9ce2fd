package testkit

import (
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/await"
)

// awaitTime is how long Await waits.
const awaitTime = time.Minute

// Await waits until cond holds. It asks every two milliseconds, and after a minute
// the test fails and says what was awaited. In a testing/synctest bubble it is the
// same, in the bubble's time.
func Await(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	if !await.Until(awaitTime, cond) {
		tb.Fatalf("not within %s: %s", awaitTime, what)
	}
}

// Await is the function Await, whose failure shows the tree and the last events as
// well. Settled and Healthy are conditions for it.
func (k *Kit) Await(what string, cond func() bool) {
	k.tb.Helper()
	if !await.Until(awaitTime, cond) {
		k.tb.Fatalf("not within %s: %s\n%s", awaitTime, what, k.show())
	}
}
