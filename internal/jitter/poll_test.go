package jitter_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/jitter"
)

func TestInterval(t *testing.T) {
	tests := []struct {
		processes           int
		average, perProcess time.Duration
		low, high           time.Duration
	}{
		{0, 0, 0, 2500 * time.Millisecond, 7500 * time.Millisecond},
		{1, 0, 0, 2500 * time.Millisecond, 7500 * time.Millisecond},
		{9, 0, 0, 22500 * time.Millisecond, 67500 * time.Millisecond},
		{10, 0, 0, 0, 100 * time.Second},
		{4, 0, 2 * time.Second, 4 * time.Second, 12 * time.Second},
		{4, 3 * time.Second, 0, 1500 * time.Millisecond, 4500 * time.Millisecond},
		{40, 3 * time.Second, 0, 0, 6 * time.Second},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d processes, average %v", tt.processes, tt.average), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var sum time.Duration
			low, high := time.Hour, time.Duration(0)
			const n = 20_000
			for range n {
				d := jitter.PollInterval(tt.processes, tt.average, tt.perProcess, r)
				sum += d
				low, high = min(low, d), max(high, d)
			}
			slack := (tt.high - tt.low) / 100
			if low < tt.low || low > tt.low+slack || high > tt.high || high < tt.high-slack {
				t.Errorf("between %v and %v, want %v to %v", low, high, tt.low, tt.high)
			}
			if mean := sum / n; (mean - (tt.low+tt.high)/2).Abs() > 2*slack {
				t.Errorf("mean %v, want %v", mean, (tt.low+tt.high)/2)
			}
		})
	}
}

func TestInitialWait(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		if d := jitter.FirstPoll(0, r); d < 10*time.Second || d > 15*time.Second {
			t.Fatalf("got %v", d)
		}
		if d := jitter.FirstPoll(time.Second, r); d < 0 || d > 5*time.Second {
			t.Fatalf("got %v with an average set", d)
		}
	}
}
