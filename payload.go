package troupe

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
	"unsafe"
)

// Payload is the wire record of one job: an ordered JSON object whose values
// stay the text they came as. Big integers, number texts like 1e3, unknown
// fields and the order of keys pass through unchanged, whatever is edited
// around them. The zero value is an empty object.
//
// Reading is safe for concurrent use; editing is not. Copy it with Clone only.
type Payload struct {
	raw    []byte // what was parsed, nil if nothing was
	fields []field
	edits  []edit
	marks  keyMarks
	spare  []byte // room for the texts of edits, from its length on

	edited       bool
	escapedKeys  bool // some key in raw is written with escapes
	escapedTexts bool // some string in raw, a value of a field, is
}

// parsed is a payload with room for its fields.
type parsed struct {
	Payload
	room [fieldsRoom]field
}

// field is one key with its value: offsets into raw, small and free of
// pointers, since this is made for each job.
type field struct {
	nameAt, nameEnd uint32 // of the key, quotes included; nameEnd 0 for a key that was added
	at, end         uint32 // of the value; if end is 0, at is its index in Payload.edits
}

func (f *field) added() bool  { return f.nameEnd == 0 }
func (f *field) edited() bool { return f.end == 0 }

// edit is what Set put in place of a value, or at the end.
type edit struct {
	key  string // of an added field
	text []byte
}

const (
	fieldsRoom = 11      // as many as an ordinary push has after a failure
	copyBelow  = 4 << 10 // up to this size strings are parts of raw and keep it alive
)

// cut returns raw[i:j] as a string.
func (p *Payload) cut(i, j uint32) string {
	text := p.raw[i:j]
	if len(p.raw) > copyBelow {
		return string(text)
	}
	return unsafe.String(unsafe.SliceData(text), len(text)) // raw is not modified any more
}

func (p *Payload) key(f *field) string {
	switch {
	case f.added():
		return p.edits[f.at].key
	case p.escapedKeys:
		return unquote(p.raw[f.nameAt:f.nameEnd])
	}
	return p.cut(f.nameAt+1, f.nameEnd-1)
}

func (p *Payload) text(f *field) []byte {
	if f.edited() {
		return p.edits[f.at].text
	}
	return p.raw[f.at:f.end:f.end]
}

func (p *Payload) find(key string) int {
	mark := markOf(key)
	if !p.marks.met(mark) {
		return -1
	}
	if i := p.marks.place(mark); uint(i) < uint(len(p.fields)) {
		f := &p.fields[i]
		if !f.added() && !p.escapedKeys && string(p.raw[f.nameAt+1:f.nameEnd-1]) == key {
			return i
		}
	}
	return p.search(key)
}

func (p *Payload) search(key string) int {
	for i := range p.fields {
		if p.has(i, key) {
			return i
		}
	}
	return -1
}

// has tells whether field i has the key.
func (p *Payload) has(i int, key string) bool {
	f := &p.fields[i]
	if f.added() || p.escapedKeys {
		return p.key(f) == key
	}
	return string(p.raw[f.nameAt+1:f.nameEnd-1]) == key
}

// Class returns the field "class": a Ruby constant name, "" if it is not a string.
func (p *Payload) Class() string { return p.str("class") }

// JID returns the field "jid": 24 lower-case hex digits by custom, any string
// in fact, "" if there is none.
func (p *Payload) JID() string { return p.str("jid") }

// Queue returns the field "queue", a bare name. The queue a running job was
// fetched from may differ, see JobInfo.
func (p *Payload) Queue() string { return p.str("queue") }

// Wrapped returns the field "wrapped": the real class of an ActiveJob.
func (p *Payload) Wrapped() string { return p.str("wrapped") }

// HandlerClass returns the class whose handler runs the job: Wrapped if Class
// is one of ActiveJob's two wrappers for Sidekiq, else Class.
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
// class. What is no string in it is left out.
func (p *Payload) Tags() (tags []string) {
	raw, _ := p.Get("tags")
	var values []json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		return nil
	}
	for _, v := range values {
		if len(v) > 1 && v[0] == '"' {
			tags = append(tags, unquote(v))
		}
	}
	return tags
}

// Args returns the text of the field "args", nil if there is none. It is an
// array in every valid job; nothing here checks that. It must not be modified.
func (p *Payload) Args() json.RawMessage {
	raw, _ := p.Get("args")
	return raw
}

// Failures returns how often the job has failed so far: 0 on the first run and
// after the manual retry of a first failure (retry_count -1). The field
// "retry_count" itself is one less, and absent before the first failure.
func (p *Payload) Failures() int {
	n, ok := p.Int("retry_count")
	if !ok || n < 0 {
		return 0
	}
	return int(min(n, math.MaxInt32)) + 1
}

// Get returns the text of a field, which must not be modified.
func (p *Payload) Get(key string) (json.RawMessage, bool) {
	if i := p.find(key); i >= 0 {
		return p.text(&p.fields[i]), true
	}
	return nil, false
}

func (p *Payload) str(key string) string {
	s, _ := p.String(key)
	return s
}

// String returns a field that is a JSON string, decoded. A surrogate escape
// without its partner becomes U+FFFD; bytes that are not UTF-8 stay as they are.
func (p *Payload) String(key string) (string, bool) {
	i := p.find(key)
	if i < 0 {
		return "", false
	}
	f := &p.fields[i]
	text := p.text(f)
	switch {
	case len(text) < 2 || text[0] != '"':
		return "", false
	case (f.edited() || p.escapedTexts) && bytes.IndexByte(text, '\\') >= 0:
		return unquote(text), true
	case !f.edited():
		return p.cut(f.at+1, f.end-1), true
	}
	return string(text[1 : len(text)-1]), true
}

// Int returns a field that is a JSON integer within 64 bits; 5.0, 5e0 and "5"
// are none.
func (p *Payload) Int(key string) (int64, bool) {
	raw, ok := p.Get(key)
	if !ok { // asked for at every run, and an error of strconv is an allocation
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

// Time returns a field that is a point in time, in UTC, however it was
// written: a number of seconds, or of milliseconds if it is 1e11 or more; such
// a number in a string; or a date ("2026-11-21T03:14:41.5Z",
// "2026-11-21 03:14:41 UTC").
func (p *Payload) Time(key string) (time.Time, bool) {
	raw, _ := p.Get(key)
	return parseTime(raw)
}

// Keys yields each key once, in the order of the object.
func (p *Payload) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range p.fields {
			if !yield(p.key(&p.fields[i])) {
				return
			}
		}
	}
}

// ValidUTF8 tells whether all bytes are UTF-8. Ruby runs a job that is not,
// but loses it when it has to write it back.
func (p *Payload) ValidUTF8() bool {
	if !p.edited {
		return utf8.Valid(p.raw)
	}
	for i := range p.fields {
		f := &p.fields[i]
		if !utf8.Valid(p.raw[f.nameAt:f.nameEnd]) || !utf8.Valid(p.text(f)) {
			return false
		}
	}
	return true
}

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
