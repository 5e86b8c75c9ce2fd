package wirejson

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// The years 1970 to 5138 in seconds lie below msFrom, those from 1973 on in
// milliseconds above it; minSeconds is the start of the year 1, maxSeconds the end of the year
// 9999: other times cannot be written as JSON.
const (
	msFrom     = 1e11
	minSeconds = -62135596800
	maxSeconds = 253402300799
)

// dateLayouts are the forms of a date met in a string; Go reads a fraction
// after the seconds with each of them.
var dateLayouts = [...]string{
	time.RFC3339,
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04:05",
	"2006-01-02 15:04:05 MST",
	"2006-01-02 15:04:05 Z0700",
	"2006-01-02 15:04:05",
	"2006-01-02",
}

// ParseTime reads the JSON text of a timestamp, see troupe.Payload.Time.
func ParseTime(text []byte) (time.Time, bool) {
	if len(text) == 0 {
		return time.Time{}, false
	}
	if text[0] != '"' {
		return parseNumberTime(string(text))
	}
	s := strings.TrimSpace(Unquote(text))
	if t, ok := parseNumberTime(s); ok {
		return t, true
	}
	for _, layout := range dateLayouts {
		// Zone names other than UTC and GMT mean nothing without a place.
		if t, err := time.Parse(layout, s); err == nil && knownZone(t) && t.Unix() >= minSeconds && t.Unix() <= maxSeconds {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

func knownZone(t time.Time) bool {
	name, offset := t.Zone()
	return offset != 0 || name == "" || name == "UTC" || name == "GMT"
}

// parseNumberTime reads decimal text without going through a double where it
// can, so that the digits written are the digits read.
func parseNumberTime(s string) (time.Time, bool) {
	if end, fault := ScanNumber([]byte(s), 0); fault != "" || end != len(s) {
		return time.Time{}, false
	}
	whole, fraction, _ := strings.Cut(s, ".")
	if strings.ContainsAny(s, "eE") || whole[0] == '-' || len(whole) > 18 {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || f < minSeconds || f >= maxSeconds*1e3 {
			return time.Time{}, false
		}
		if f >= msFrom {
			f /= 1e3
		}
		sec, frac := math.Modf(f)
		return time.Unix(int64(sec), int64(math.Round(frac*1e9))).UTC(), true
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > maxSeconds*1e3 {
		return time.Time{}, false
	}
	nanos, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if n >= msFrom {
		return time.UnixMilli(n).Add(time.Duration(nanos / 1e3)).UTC(), true
	}
	return time.Unix(n, nanos).UTC(), true
}
