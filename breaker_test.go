package troupe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe"
)

// What is wrong with the breaker of a limit is told by its field.
func TestBreakersThatAreWrong(t *testing.T) {
	for want, l := range map[string]troupe.Limit{
		`AtOnce is 0 and Rate is 0, expected`:     {},
		`AtOnce is 1 and Rate is 1, expected`:     {AtOnce: 1, Rate: 1, Breaker: &troupe.Breaker{}},
		`Breaker.Failures is -1, expected`:        {Breaker: &troupe.Breaker{Failures: -1}},
		`Breaker.Rest is 1µs, expected`:           {Breaker: &troupe.Breaker{Rest: time.Microsecond}},
		`Breaker.Rest is -1s, expected`:           {Breaker: &troupe.Breaker{Rest: -time.Second}},
		`Breaker.Rest is 9000h0m0s, expected`:     {Breaker: &troupe.Breaker{Rest: 9000 * time.Hour}},
		`Breaker is set, expected none with Thro`: {AtOnce: 1, Throttled: true, Breaker: &troupe.Breaker{}},
		`Burst is 2, expected`:                    {Burst: 2, Breaker: &troupe.Breaker{}},
		`Per is 1s, expected`:                     {Per: time.Second, Breaker: &troupe.Breaker{}},
	} {
		l.Name = "api"
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, expected %s", l, err, want)
		}
	}
	for _, l := range []troupe.Limit{
		{Breaker: &troupe.Breaker{}}, {Breaker: &troupe.Breaker{Failures: 1, Rest: time.Hour}, By: "0"}, {AtOnce: 1, Breaker: &troupe.Breaker{}}, {Rate: 1, Burst: 2, Breaker: &troupe.Breaker{}},
	} {
		l.Name = "api"
		if err := l.Validate(); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
