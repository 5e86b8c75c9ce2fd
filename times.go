package troupe

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/troupehq/troupe/internal/scores"
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

// Format returns t as JSON, in the form in which Payload.SetTime writes it.
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
	return scores.AppendTime(text, t)
}
