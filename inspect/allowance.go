package inspect

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// Allowance is what a limit allows: so many at once, or one in so many seconds. The zero value allows nothing, and is of
// a limit that is not defined.
type Allowance struct {
	AtOnce    int           // 0 with Every, and of a limit that lets nobody in
	Every     time.Duration // a job starts in each, of a rate
	Burst     int           // how many start together after a pause, of a rate
	Throttled bool          // it counts on the key of the gem sidekiq-throttled
	Free      bool          // it has no bound, and a Breaker; Every is a nanosecond then

	// Breaker is set if it has one: after so many Failures in a row it rests for the time Rest; see troupe.Breaker.
	Breaker  bool
	Failures int
	Rest     time.Duration

	defined bool
}

// Defined reports whether a limit is there.
func (a Allowance) Defined() bool { return a.defined }

// allowanceOf reads the text of a limit, see package job.
func allowanceOf(text string) (a Allowance) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return a
	}
	a.defined = true
	for i, word := range words {
		if word == "breaker" && i+2 < len(words) {
			a.Breaker = true
			a.Failures, _ = strconv.Atoi(words[i+1])
			rest, _ := strconv.ParseFloat(words[i+2], 64)
			a.Rest = time.Duration(rest * float64(time.Second))
		}
	}
	n, _ := strconv.ParseFloat(words[0], 64)
	if len(words) > 1 {
		if every, err := strconv.ParseFloat(words[1], 64); err == nil {
			a.Every, a.Burst = time.Duration(every*float64(time.Second)), int(n)
			if a.Free = every == 0; a.Free {
				a.Every = 1
			}
			return a
		}
	}
	a.AtOnce = int(n)
	for _, word := range words[1:] {
		a.Throttled = a.Throttled || word == "throttled"
	}
	return a
}

// text is allowanceOf's inverse, without what stands behind the numbers.
func (a Allowance) text() string {
	if a.Free {
		return strconv.Itoa(a.Burst) + " 0"
	}
	if a.Every > 0 {
		return strconv.Itoa(a.Burst) + " " + strconv.FormatFloat(a.Every.Seconds(), 'f', -1, 64)
	}
	return strconv.Itoa(a.AtOnce)
}

// String says it in words: "5 at once", "10 a minute, 3 together after a pause".
func (a Allowance) String() string {
	text := a.bound()
	switch {
	case a.Breaker && a.Failures == 0:
		text += ", can rest"
	case a.Breaker:
		text += fmt.Sprintf(", rests for %s after %s in a row", words.Few(a.Rest), words.Plural(int64(a.Failures), "failure"))
	}
	return text
}

func (a Allowance) bound() string {
	switch {
	case !a.defined:
		return "nothing: it is not defined"
	case a.Free:
		return "any number"
	case a.Every > 0:
		return fmt.Sprintf("%s, %d together after a pause", rateText(a.Every), a.Burst)
	case a.Throttled:
		return strconv.Itoa(a.AtOnce) + " at once, with Ruby's"
	}
	return strconv.Itoa(a.AtOnce) + " at once"
}

// rateText says how many start in a second, a minute or an hour, if that is a whole number.
func rateText(every time.Duration) string {
	for _, unit := range []struct {
		time.Duration
		name string
	}{{time.Second, "a second"}, {time.Minute, "a minute"}, {time.Hour, "an hour"}, {24 * time.Hour, "a day"}} {
		n := float64(unit.Duration) / float64(every)
		if whole := math.Round(n); whole >= 1 && math.Abs(n-whole) < whole*1e-6 {
			return fmt.Sprintf("%.0f %s", whole, unit.name)
		}
	}
	return "one every " + every.Round(time.Millisecond).String()
}

// ParseAllowance reads what people write: "5" at once, "10/1m" or "10/m" for 10 a minute, "10/1m burst 3" if 3 may start together after a
// pause; see troupe.Limit. "0" lets nobody in.
func ParseAllowance(text string) (Allowance, error) {
	bad := func() (Allowance, error) {
		return Allowance{}, fmt.Errorf(`got the allowance %.100q, expected "5" at once, "10/1m", or "10/1m burst 3"`, text)
	}
	what, more, _ := strings.Cut(strings.TrimSpace(text), " ")
	number, per, rate := strings.Cut(what, "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return bad()
	}
	if !rate {
		if more != "" {
			return bad()
		}
		return Allowance{AtOnce: n, defined: true}, nil
	}
	l := troupe.Limit{Name: "x", Rate: n}
	if l.Per, err = time.ParseDuration(cmp.Or(map[string]string{"s": "1s", "m": "1m", "min": "1m", "h": "1h"}[per], per)); err != nil {
		return bad()
	}
	if more = strings.TrimSpace(more); more != "" {
		burst, ok := strings.CutPrefix(more, "burst ")
		if l.Burst, err = strconv.Atoi(strings.TrimSpace(burst)); !ok || err != nil || l.Burst < 1 {
			return bad()
		}
	}
	if err := l.Validate(); err != nil {
		return bad()
	}
	return allowanceOf(job.LimitText(l)), nil
}
