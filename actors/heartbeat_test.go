package actors

import (
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
)

// Beats fall on the moments of the wall clock, each process on its own, whatever a
// beat takes; close ones are not bent.
func TestBeatsFallOnTheGrid(t *testing.T) {
	const interval = 10 * time.Second
	now := time.Date(2026, 11, 21, 16, 0, 3, 123_456_789, time.UTC)
	first := now.Add(nextBeat(now, interval))
	if !first.Equal(first.Truncate(beatGrid)) || first.Sub(now)-interval > beatGrid || interval-first.Sub(now) > beatGrid {
		t.Errorf("the first after %v, at %v", first.Sub(now), first)
	}
	at := first
	for i := range 1000 {
		at = at.Add(time.Duration(i%20) * time.Millisecond) // it took so long
		at = at.Add(nextBeat(at, interval))
	}
	harness.Equal(t, "a thousand beats take", at.Sub(first), 1000*interval)
	for _, short := range []time.Duration{time.Millisecond, 70 * time.Millisecond} {
		if got := nextBeat(now, short); got != short {
			t.Errorf("interval %v: after %v", short, got)
		}
	}
}
