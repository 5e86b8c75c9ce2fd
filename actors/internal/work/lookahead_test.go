package work

import (
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
)

// work lets p see jobs that end at an even rate for d, and calls of that round trip.
func (p *LookAhead) work(now *time.Time, rate int, d, trip time.Duration) {
	p.Called(trip, 10, 1500)
	for range int(float64(rate) * d.Seconds()) {
		*now = now.Add(time.Second / time.Duration(rate))
		p.Ended(*now)
	}
}

func TestTheLookAheadIsWhatStartsWithinTwoMillisecondsOrFourRoundTrips(t *testing.T) {
	for _, tc := range []struct {
		name     string
		rate     int
		trip     time.Duration
		from, to int
		asks     bool
	}{
		{"jobs of 10 ms on 25 processors, that ask", 2500, 100 * time.Microsecond, 9, 10, true},
		{"jobs of a second on ten processors", 10, 100 * time.Microsecond, 0, 0, false},
		{"jobs of 10 ms on 25 processors", 2500, 100 * time.Microsecond, 4, 5, false},
		{"no-ops near by", 300_000, 100 * time.Microsecond, 512, 512, false},
		{"no-ops 2 ms away", 150_000, 2 * time.Millisecond, 1100, 1250, false},
	} {
		p := NewLookAhead(1<<20, true, tc.asks)
		now := time.Now()
		p.work(&now, tc.rate, time.Second, tc.trip)
		if p.Units < tc.from || p.Units > tc.to {
			t.Errorf("%s: %d ahead, want %d to %d", tc.name, p.Units, tc.from, tc.to)
		}
	}
}

func TestTheLookAheadIsBoundedByBytes(t *testing.T) {
	p := NewLookAhead(1<<20, true, false)
	now := time.Now()
	for range 10 {
		p.Called(100*time.Microsecond, 100, 100<<20) // a megabyte each
		p.work(&now, 300_000, 10*time.Millisecond, 100*time.Microsecond)
	}
	if p.Units > 1 || p.Call(100) != 1 {
		t.Errorf("%d payloads of about a megabyte ahead, %d in one call, want what a megabyte holds", p.Units, p.Call(100))
	}
	for _, c := range []struct {
		bytes   int
		emptied bool
	}{{0, true}, {100 << 10, true}, {700 << 10, false}, {2 << 20, false}} {
		if got := p.Emptied(c.bytes); got != c.emptied {
			t.Errorf("a call of %d bytes emptied the queues: %v", c.bytes, got)
		}
	}
	harness.Equal(t, "a call takes of one, however large", p.Call(1), 1)
}

func TestTheLookAheadFollowsASlowdownAtOnceAndStopsWhenToldTo(t *testing.T) {
	p := NewLookAhead(1<<20, true, false)
	now := time.Now()
	p.work(&now, 200_000, 100*time.Millisecond, 100*time.Microsecond)
	if p.Units < 150 {
		t.Fatalf("%d ahead", p.Units)
	}
	now = now.Add(time.Second) // one job took that long
	p.Ended(now)
	harness.Equal(t, "ahead after a job of a second", p.Units, 0)
	p.work(&now, 200_000, 100*time.Millisecond, 100*time.Microsecond)
	p.Stop(now)
	harness.Equal(t, "ahead after a stop", p.Units, 0)
}

// A mean of the old rate and the new one would take several windows to get there. The first window begins at the old rate.
func TestTheLookAheadFollowsFasterJobsAtOnce(t *testing.T) {
	p := NewLookAhead(1<<20, true, false)
	now := time.Now()
	p.work(&now, 10_000, 100*time.Millisecond, 100*time.Microsecond)
	harness.Equal(t, "ahead", p.Units, 20)
	p.work(&now, 200_000, windowTime+time.Millisecond, 100*time.Microsecond)
	if p.Units < 250 {
		t.Errorf("%d ahead after a window of jobs twenty times as fast", p.Units)
	}
}

func TestCallsAreSmallerAfterOneThatFailed(t *testing.T) {
	p := NewLookAhead(1<<30, true, false)
	for want := 2000; want > 10; want /= 2 {
		harness.Equal(t, "a call for", p.Call(2000), want)
		p.Failed(want)
		p.Failed(0) // one that carried acks only says nothing
	}
	for range 20 { // Redis is away
		p.Failed(p.Call(2000))
	}
	for want := 1; want < 2000; want *= 2 {
		harness.Equal(t, "a call for", p.Call(2000), want)
		p.Called(time.Millisecond, 1, 100)
	}
	for range 3 {
		p.Called(time.Millisecond, 1, 100)
	}
	harness.Equal(t, "a call for at last, want no bound", p.Call(9000), 9000)
}
