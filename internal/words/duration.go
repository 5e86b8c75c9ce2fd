package words

import (
	"errors"
	"math"
	"strconv"
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
