package troupe

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/troupehq/troupe/internal/wirejson"
)

// Timestamps is the form in which times are written into payloads
// (created_at, enqueued_at, failed_at, retried_at). Both forms are read
// everywhere, see Payload.Time.
type Timestamps int

const (
	// TimestampsFloat is the default: it writes seconds since the epoch as a JSON
	// number with a fraction: the only form that Sidekiq 6, 7 and 8 all read
	// correctly (8 takes any integer for milliseconds).
	TimestampsFloat Timestamps = iota

	// TimestampsMillis writes integer milliseconds, as Sidekiq 8 does. Use it
	// once no process and no Web UI of version 6 or 7 is left.
	TimestampsMillis
)

// String returns "float" or "ms", the names used in configuration files.
func (f Timestamps) String() string {
	if f == TimestampsMillis {
		return "ms"
	}
	return "float"
}

// Format returns t as JSON: for TimestampsFloat a number with one to seven
// decimals ("1795224881.1534805", "1795225244.0"), the shortest text that
// reads back as the same double, so that Ruby writes the same bytes again.
func (f Timestamps) Format(t time.Time) json.RawMessage {
	return f.appendTo(make([]byte, 0, timeRoom), t)
}

// timeRoom holds the text of a timestamp.
const timeRoom = 24

// appendTo is Format into text, which is empty.
func (f Timestamps) appendTo(text []byte, t time.Time) json.RawMessage {
	if f == TimestampsMillis {
		return strconv.AppendInt(text, t.UnixMilli(), 10)
	}
	s := Score(t)
	text = AppendScore(text, s)
	if dot := bytes.IndexByte(text, '.'); dot < 0 {
		text = append(text, '.', '0')
	} else if len(text)-dot-1 > 7 {
		// Times before September 2001 have a digit to spare in a double.
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(s, 'f', 7, 64), 64)
		text = strconv.AppendFloat(text[:0], rounded, 'f', -1, 64)
		if rounded == math.Trunc(rounded) {
			text = append(text, '.', '0')
		}
	}
	return text
}

// Score returns t as the score of a sorted set: seconds since the epoch.
// A double holds today's times to about a quarter of a microsecond.
func Score(t time.Time) float64 {
	return float64(t.Unix()) + float64(t.Nanosecond())/1e9
}

// FormatScore returns the decimal text of a score: the shortest that reads
// back as the same double and never with an exponent, since Sidekiq finds a
// member again by the exact score. Infinities give "+Inf" and "-Inf", which
// Redis accepts as bounds.
func FormatScore(f float64) string { return string(AppendScore(make([]byte, 0, 24), f)) }

// AppendScore adds the text of FormatScore to b.
func AppendScore(b []byte, f float64) []byte { return wirejson.AppendScore(b, f) }
