package troupe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/troupehq/troupe/internal/wirejson"
)

// Payload is the wire record of one job: an ordered JSON object whose values
// stay the text they came as. Big integers, number texts like 1e3, unknown
// fields and the order of keys pass through unchanged, whatever is edited
// around them. The zero value is an empty object.
//
// Reading is safe for concurrent use; editing is not. Copy it with Clone only.
type Payload struct {
	object wirejson.Object
}

// PayloadError says why bytes are not a job.
type PayloadError struct {
	Reason string // "not an object but null", "unexpected end", …; never contains data of the job
	Offset int    // byte at which it was noticed
}

func (e *PayloadError) Error() string {
	return fmt.Sprintf("invalid payload at byte %d: %s", e.Offset, e.Reason)
}

// ParsePayload checks and splits the bytes of a job in one pass. It refuses,
// with a *PayloadError, what Ruby's parser refuses (invalid JSON, a byte order
// mark, NaN, text after the object, nothing at all, nesting deeper than
// 100 levels) and valid JSON that is not an object. Bytes in strings that are
// not UTF-8 parse, as in Ruby; see ValidUTF8. Of a key that comes twice the
// last value counts.
//
// The payload keeps a reference to raw, which must not be modified afterwards.
func ParsePayload(raw []byte) (*Payload, error) {
	p := new(struct {
		Payload
		room wirejson.Room
	})
	if at, fault := p.object.Parse(raw, &p.room); fault != "" {
		return nil, &PayloadError{Reason: fault, Offset: at}
	}
	return &p.Payload, nil
}

// Class returns the field "class": a Ruby constant name, "" if there is none. Like
// the other names here it is a string; a number stands for its own text.
func (p *Payload) Class() string { return p.str("class") }

// JID returns the field "jid": 24 lower-case hex digits by custom, any string
// or number in fact, "" if there is none.
func (p *Payload) JID() string { return p.str("jid") }

// Queue returns the field "queue", a bare name. The queue a running job was
// fetched from may differ, see JobInfo.
func (p *Payload) Queue() string { return p.str("queue") }

// HandlerClass returns the class whose handler runs the job: Wrapped if
// Class is one of ActiveJob's two wrappers for Sidekiq, else Class.
func (p *Payload) HandlerClass() string {
	class := p.Class()
	switch class {
	case "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "Sidekiq::ActiveJob::Wrapper":
		if wrapped := p.Wrapped(); wrapped != "" {
			return wrapped
		}
	}
	return class
}

// Wrapped returns the field "wrapped", the real class of an ActiveJob; "" if there is none.
func (p *Payload) Wrapped() string { return p.str("wrapped") }

// DisplayClass returns what people are shown: the field "display_class", else
// Wrapped, else Class.
func (p *Payload) DisplayClass() string {
	if s := p.str("display_class"); s != "" {
		return s
	}
	if s := p.Wrapped(); s != "" {
		return s
	}
	return p.Class()
}

// Tags returns the field "tags": labels that Sidekiq's pages show beside the
// class. A value that is no array is the only one; what is no string is left out.
func (p *Payload) Tags() (tags []string) {
	raw, _ := p.Get("tags")
	for _, v := range wirejson.Elements(list(raw)) {
		if tag, ok := wirejson.Text(v); ok {
			tags = append(tags, tag)
		}
	}
	return tags
}

// Args returns the text of the field "args", always an array: a value that is none,
// as other clients write it, is its only element. It is nil if there is no value. It must
// not be modified.
func (p *Payload) Args() json.RawMessage {
	raw, _ := p.Get("args")
	return list(raw)
}

// Failures returns how often the job has failed so far, Job.Attempt less one: 0 on the first run and
// after the manual retry of a first failure (retry_count -1). The field
// "retry_count" itself is one less, and absent before the first failure. A string with a
// number is read as that, anything else as -1.
func (p *Payload) Failures() int {
	raw, ok := p.Get("retry_count")
	if !ok {
		return 0
	}
	n, ok := wirejson.Number(raw)
	if !ok {
		return 0
	}
	return int(min(max(n, -1), math.MaxInt32)) + 1
}

// Number returns a field that is a number, or a string with one, without its fraction. A
// number beyond the largest double is an infinity.
func (p *Payload) Number(key string) (float64, bool) {
	raw, _ := p.Get(key)
	return wirejson.Number(raw)
}

// Get returns the text of a field, which must not be modified.
func (p *Payload) Get(key string) (json.RawMessage, bool) { return p.object.Get(key) }

// str is a field that is a name.
func (p *Payload) str(key string) string {
	if s, ok := p.String(key); ok {
		return s
	}
	raw, _ := p.Get(key)
	return name(raw)
}

// name is a string, or the text of a number; "" for anything else.
func name(raw json.RawMessage) string {
	s, ok := wirejson.Text(raw)
	if !ok && wirejson.KindOf(raw) == "a number" {
		return string(raw)
	}
	return s
}

// list is an array; a value that is none is the only element of one, null and false are none.
func list(raw json.RawMessage) json.RawMessage {
	switch i := wirejson.SkipSpace(raw, 0); {
	case i == len(raw) || raw[i] == '[':
		return raw
	case string(raw) == "null" || string(raw) == "false":
		return nil
	}
	return append(append(append(make(json.RawMessage, 0, len(raw)+2), '['), raw...), ']')
}

// String returns a field that is a JSON string, decoded. A surrogate escape
// without its partner becomes U+FFFD; bytes that are not UTF-8 stay as they are.
func (p *Payload) String(key string) (string, bool) { return p.object.String(key) }

// Int returns a field that is a JSON integer within 64 bits; 5.0, 5e0 and "5"
// are none.
func (p *Payload) Int(key string) (int64, bool) { return p.object.Int(key) }

// Time returns a field that is a point in time, in UTC, however it was
// written: a number of seconds, or of milliseconds if it is 1e11 or more; such
// a number in a string; or a date ("2026-11-21T03:14:41.5Z",
// "2026-11-21 03:14:41 UTC").
func (p *Payload) Time(key string) (time.Time, bool) {
	raw, _ := p.Get(key)
	return wirejson.ParseTime(raw)
}

// Keys yields each key once, in the order of the object.
func (p *Payload) Keys() iter.Seq[string] { return p.object.Keys() }

// Rewritable is nil if Ruby can read the payload and write it back. It loses a job that it
// cannot write: one with bytes that are not UTF-8, with half of a surrogate pair ("\ud83d"), or
// with a number beyond the largest double (1e999). Then the error is a *PayloadError, with the
// offset in Bytes.
func (p *Payload) Rewritable() error {
	if at, fault := p.object.Fault(); fault != "" {
		return &PayloadError{Reason: fault, Offset: at}
	}
	return nil
}

// ValidUTF8 tells whether all bytes are UTF-8. See also Rewritable, which asks for more.
func (p *Payload) ValidUTF8() bool { return p.object.ValidUTF8() }

// MarshalJSON returns Bytes, so that a payload can be a value in another one.
func (p *Payload) MarshalJSON() ([]byte, error) { return p.Bytes(), nil }

// UnmarshalJSON is ParsePayload on a copy of raw.
func (p *Payload) UnmarshalJSON(raw []byte) error {
	parsed, err := ParsePayload(bytes.Clone(raw))
	if err != nil {
		return err
	}
	*p = *parsed
	return nil
}
