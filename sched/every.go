package sched

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	isEvery = regexp.MustCompile(`^@?(?i:every)[ \t]+(.*)$`)
	counted = regexp.MustCompile(`^(\d{0,6})[ \t]*(?:(s|secs?|seconds?)|(m|mins?|minutes?)|(h|hours?)|(days?))$`)
)

// units are those of the groups of counted.
var units = []time.Duration{2: time.Second, 3: time.Minute, 4: time.Hour, 5: 24 * time.Hour}

// longestInterval bounds what an interval may be.
const longestInterval = 366 * 24 * time.Hour

// every reads an interval: "every 15m", "every 2 hours", "every 1h30m"; it is 0 if text is none.
// One that divides the minute, the hour or the day comes with the cron line that fugit makes of
// it. To any other fugit gives a line that means something else.
func every(text string) (interval time.Duration, line string, err error) {
	said := isEvery.FindStringSubmatch(text)
	if said == nil {
		return 0, "", nil
	}
	if part := counted.FindStringSubmatch(said[1]); part != nil {
		n := 1
		if part[1] != "" {
			n, _ = strconv.Atoi(part[1])
		}
		for i, unit := range units {
			if unit > 0 && part[i] != "" {
				interval = time.Duration(n) * unit
			}
		}
	} else if interval, err = time.ParseDuration(said[1]); err != nil {
		return 0, "", withZone(text)
	}
	if interval < time.Second || interval%time.Second != 0 || interval > longestInterval {
		return 0, "", fmt.Errorf("interval %q: expected whole seconds, from 1 second to 366 days", said[1])
	}
	switch {
	case interval < time.Minute && time.Minute%interval == 0:
		return interval, step(interval, time.Second, time.Minute) + " * * * * *", nil
	case interval%time.Minute == 0 && time.Hour%interval == 0:
		return interval, step(interval, time.Minute, time.Hour) + " * * * *", nil
	case interval%time.Hour == 0 && 24*time.Hour%interval == 0:
		return interval, "0 " + step(interval, time.Hour, 24*time.Hour) + " * * *", nil
	}
	return interval, "", nil
}

// step is the field of units in whole that comes each interval.
func step(interval, unit, whole time.Duration) string {
	if interval == unit {
		return "*"
	}
	if interval == whole {
		return "0"
	}
	return fmt.Sprintf("*/%d", interval/unit)
}

// withZone is the fault of an interval with a zone behind it; nil of any other text.
func withZone(text string) error {
	at := strings.LastIndexAny(text, " \t")
	alone, zone := strings.TrimRight(text[:at], " \t"), text[at+1:]
	interval, line, err := every(alone)
	if err != nil || interval == 0 {
		return nil // the interval is none: this is a text of another kind
	}
	if _, err := Zone(zone); err != nil {
		return nil
	}
	want := strconv.Quote(alone)
	if line != "" {
		want += fmt.Sprintf(", or the line %q", line+" "+zone)
	}
	return fmt.Errorf("interval %q with zone %s: an interval has no zone; expected %s", alone, zone, want)
}
