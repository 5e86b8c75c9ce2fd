package troupe

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/wirejson"
)

// Set makes value the text of a field: in place if the key exists, else at the
// end. value must be one JSON value and is neither checked nor copied; nil
// means null. See SetJSON for Go values.
func (p *Payload) Set(key string, value json.RawMessage) { p.object.Set(key, value) }

// SetString sets a field to a JSON string. Each run of bytes that is not UTF-8
// becomes one U+FFFD: such a job would be lost by Ruby.
func (p *Payload) SetString(key, value string) { p.object.SetString(key, value) }

// SetInt sets a field to a JSON integer.
func (p *Payload) SetInt(key string, value int64) { p.object.SetInt(key, value) }

// SetTime sets a field to a timestamp in the given form.
func (p *Payload) SetTime(key string, t time.Time, form Timestamps) {
	p.Set(key, scores.AppendTime(p.object.Room(scores.TimeRoom), t, form == TimestampsMillis))
}

// SetJSON sets a field to any Go value. The text is the one that Ruby's generator
// writes, byte for byte, since Ruby finds jobs in sorted sets by their exact bytes:
// no spaces; <, >, &, U+2028 and all non-ASCII raw; whole floats with a fraction
// ("100.0").
//
// Go types map as in encoding/json, with the same struct tags (json:"name",
// omitempty, omitzero, string). json.Marshaler and encoding.TextMarshaler are
// honoured, those with pointer receivers always. Maps are sorted by key. What a
// Marshaler, a json.RawMessage or a json.Number gives is rewritten to the text
// that Ruby writes after reading it: integers of any length stay, all other
// numbers become doubles (1e3 is 1000.0, 1.10 is 1.1, -0 is 0), and of a key that
// comes twice the last value stands at the first place.
//
// It fails with an *EncodeError, and leaves the payload alone, on NaN, infinities
// and numbers beyond the largest double (1e999, with its position in the text),
// invalid UTF-8, half of a surrogate pair in a text that is given ("\ud83d"), map keys that are not strings, channels, functions and complex
// numbers, and on values nested too deep, endless ones among them: Ruby's parser
// refuses level 101, the job object itself counted.
func (p *Payload) SetJSON(key string, value any) error {
	text, fault := wirejson.Encode(value, 1)
	if fault != nil {
		return fmt.Errorf("set %s: %w", strconv.Quote(key), (*EncodeError)(fault))
	}
	p.Set(key, text)
	return nil
}

// Delete removes a field; an absent one is no change.
func (p *Payload) Delete(key string) { p.object.Delete(key) }

// Bytes returns the job as JSON: the very bytes that were parsed if nothing
// has changed since, else the fields in order without spaces between them,
// every untouched name and value with its own text. The result must not be
// modified.
func (p *Payload) Bytes() []byte { return p.object.Bytes() }

// Clone returns a payload that can be edited on its own.
func (p *Payload) Clone() *Payload {
	c := new(struct {
		Payload
		room wirejson.CloneRoom
	})
	p.object.CopyTo(&c.object, &c.room)
	return &c.Payload
}

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
