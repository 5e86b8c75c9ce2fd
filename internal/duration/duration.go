// Package duration reads the spans of time of flags and configuration files.
package duration

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// Want is what Parse accepts, in words.
const Want = "seconds (more than 0) or a duration like 30s or 2m"

// Parse reads a span of time above 0: a number of seconds ("8", "0.5") or a Go duration
// ("8s", "2m").
func Parse(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		f, ferr := strconv.ParseFloat(s, 64)
		if ferr != nil || !(f*float64(time.Second) < math.MaxInt64) {
			return 0, errors.New("expected " + Want)
		}
		d = time.Duration(f * float64(time.Second))
	}
	if d <= 0 {
		return 0, errors.New("expected " + Want)
	}
	return d, nil
}
