package testkit

import (
	"testing"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
)

// Await waits until cond holds. It asks every two milliseconds, and after a minute
// the test fails and says what was awaited. In a testing/synctest bubble it is the
// same, in the bubble's time.
func Await(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	harness.Await(tb, what, cond)
}

// Await is the function Await, whose failure shows the tree and the last events as
// well. Settled and Healthy are conditions for it.
func (k *Kit) Await(what string, cond func() bool) {
	k.tb.Helper()
	if !harness.Within(harness.Patience, cond) {
		k.tb.Fatalf("not within %s: %s\n%s", harness.Patience, what, k.show())
	}
}

// Settled reports whether the daemon runs nothing and has nothing left to settle.
// What it has not fetched yet does not count: wait for that first.
func (k *Kit) Settled() bool {
	s := k.Stats()
	return s.Busy == 0 && s.Waiting == 0
}

// Healthy reports whether every actor runs: none is crashed, restarting, held or
// missing.
func (k *Kit) Healthy() bool {
	tree := k.Tree()
	for _, a := range tree {
		switch a.State {
		case actors.StateRunning, actors.StateIdle, actors.StateBusy:
		default:
			return false
		}
	}
	return len(tree) > 0 && k.Err() == nil
}
