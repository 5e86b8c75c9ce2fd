package jitter_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe/internal/jitter"
)

func TestAnInstantRepeatsAndAllElseDiffers(t *testing.T) {
	var runs [2]string
	for i := range runs {
		synctest.Test(t, func(t *testing.T) {
			seen := map[uint64]string{}
			for range 50 {
				for _, who := range []string{"h:1:a", "h:1:b"} {
					for _, what := range []string{"beat", "fetch"} {
						n := jitter.Rand(who, what).Uint64()
						if again := jitter.Of(who).Uint64(what, time.Now()); n != again {
							t.Errorf("%s %s: %d, then %d at the same instant", who, what, n, again)
						}
						if other := seen[n]; other != "" {
							t.Errorf("%s %s draws as %s", who, what, other)
						}
						seen[n] = who + what
						runs[i] += fmt.Sprint(n, " ")
					}
				}
				time.Sleep(time.Nanosecond)
			}
		})
	}
	if runs[0] != runs[1] {
		t.Error("two bubbles have drawn differently")
	}
}

func TestHalfIsSpreadOverTheSecondHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sum time.Duration
		for range 1000 {
			d := jitter.Half(time.Second, "h:1:a", "x")
			if d < 500*time.Millisecond || d > time.Second {
				t.Fatalf("%s", d)
			}
			sum += d
			time.Sleep(time.Microsecond)
		}
		if mean := sum / 1000; mean < 730*time.Millisecond || mean > 770*time.Millisecond {
			t.Errorf("the mean is %s, expected three quarters", mean)
		}
	})
}

func TestDoubledStopsAtItsMost(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 3, 1: 6, 2: 12, 3: 20, 4: 20, 1 << 40: 20, -1: 3} {
		if got := jitter.Doubled(3, 20, n); got != want {
			t.Errorf("3 doubled %d times is %d, expected %d", n, got, want)
		}
	}
	for first, want := range map[time.Duration]time.Duration{0: 0, 30: 20} {
		if got := jitter.Doubled(first, 20, 1<<40); got != want {
			t.Errorf("%d doubled is %d, expected %d", first, got, want)
		}
	}
}
