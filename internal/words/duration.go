package words

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// WantDuration is what ParseDuration accepts, in words.
const WantDuration = "seconds (more than 0) or a duration like 30s or 2m"

// ParseDuration reads a span of time above 0: a number of seconds ("8", "0.5") or a Go duration
// ("8s", "2m").
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		f, ferr := strconv.ParseFloat(s, 64)
		if ferr != nil || !(f*float64(time.Second) < math.MaxInt64) {
			return 0, errors.New("expected " + WantDuration)
		}
		d = time.Duration(f * float64(time.Second))
	}
	if d <= 0 {
		return 0, errors.New("expected " + WantDuration)
	}
	return d, nil
}

// WantRate is what ParseRate accepts, in words.
const WantRate = "a number of jobs, and the time in which they may start: 10 (a second), 10/s, 100/1m or 5/90s"

// ParseRate reads how many in which time: "10" (a second), "10/s", "100/1m", "5/90s".
func ParseRate(s string) (n int, per time.Duration, err error) {
	number, span, timed := strings.Cut(s, "/")
	n, err = strconv.Atoi(strings.TrimSpace(number))
	if span = strings.TrimSpace(span); !timed {
		span = "s"
	}
	if span != "" && span[0] >= 'a' {
		span = "1" + span
	}
	if per, perr := ParseDuration(span); err == nil && perr == nil && n > 0 && n <= math.MaxInt32 {
		return n, per, nil
	}
	return 0, 0, errors.New("expected " + WantRate)
}
