package troupe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Set makes value the text of a field: in place if the key exists, else at the
// end. value must be one JSON value and is neither checked nor copied; nil
// means null. See SetJSON for Go values.
func (p *Payload) Set(key string, value json.RawMessage) {
	if value == nil {
		value = json.RawMessage("null")
	}
	if len(p.edits) == cap(p.edits) {
		p.edits = slices.Grow(p.edits, failureEdits)
	}
	i := p.find(key)
	if i < 0 {
		p.marks.note(markOf(key), len(p.fields))
		p.fields = append(p.fields, field{at: uint32(len(p.edits))})
		p.edits = append(p.edits, edit{key: key, text: value})
		p.edited = true
		return
	}
	f := &p.fields[i]
	switch {
	case bytes.Equal(p.text(f), value):
		return
	case f.edited():
		p.edits[f.at].text = value
	default:
		f.at, f.end = uint32(len(p.edits)), 0
		p.edits = append(p.edits, edit{text: value})
	}
	p.edited = true
}

// SetString sets a field to a JSON string. Each run of bytes that is not UTF-8
// becomes one U+FFFD: such a job would be lost by Ruby.
func (p *Payload) SetString(key, value string) {
	p.Set(key, appendString(p.room(len(value)+2), validText(value)))
}

// room returns an empty slice for n bytes of text.
func (p *Payload) room(n int) []byte {
	used := len(p.spare)
	if cap(p.spare)-used < n {
		return make([]byte, 0, n)
	}
	p.spare = p.spare[:used+n]
	return p.spare[used : used : used+n]
}

// SetInt sets a field to a JSON integer.
func (p *Payload) SetInt(key string, value int64) {
	p.Set(key, strconv.AppendInt(p.room(intRoom), value, 10))
}

// SetBool sets a field to true or false.
func (p *Payload) SetBool(key string, value bool) { p.Set(key, strconv.AppendBool(nil, value)) }

// SetTime sets a field to a timestamp in the given form.
func (p *Payload) SetTime(key string, t time.Time, form Timestamps) {
	p.Set(key, form.appendTo(p.room(timeRoom), t))
}

// SetJSON sets a field to any Go value by the rules of EncodeJSON, and leaves
// the payload alone if that fails.
func (p *Payload) SetJSON(key string, value any) error {
	text, err := encode(value, 1)
	if err != nil {
		return fmt.Errorf("set %s: %w", strconv.Quote(key), err)
	}
	p.Set(key, text)
	return nil
}

// Delete removes a field; an absent one is no change.
func (p *Payload) Delete(key string) {
	if i := p.find(key); i >= 0 {
		p.fields = slices.Delete(p.fields, i, i+1)
		p.edited = true
	}
}

// Edited tells whether anything was changed since the payload was parsed.
func (p *Payload) Edited() bool { return p.edited }

// Bytes returns the job as JSON: the very bytes that were parsed if nothing
// has changed since, else the fields in order without spaces between them,
// every untouched name and value with its own text. The result must not be
// modified.
func (p *Payload) Bytes() []byte {
	if p.raw != nil && !p.edited {
		return p.raw
	}
	size := len(p.raw) + 2
	for i := range p.edits {
		size += len(p.edits[i].key) + len(p.edits[i].text) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for i := 0; i < len(p.fields); i++ {
		f := &p.fields[i]
		if i > 0 {
			out = append(out, ',')
		}
		if n := p.asTheyStand(i); n > 0 {
			i += n - 1
			out = append(out, p.raw[f.nameAt:p.fields[i].end]...)
			continue
		}
		if !f.added() {
			out = append(out, p.raw[f.nameAt:f.nameEnd]...)
		} else {
			out = appendString(out, validText(p.key(f)))
		}
		out = append(out, ':')
		out = append(out, p.text(f)...)
	}
	return append(out, '}')
}

// asTheyStand counts the fields from the ith on that can be copied together:
// untouched, and with nothing but a colon in the fields and a comma between them.
func (p *Payload) asTheyStand(i int) (n int) {
	for ; i+n < len(p.fields); n++ {
		f := &p.fields[i+n]
		if f.edited() || f.at != f.nameEnd+1 || n > 0 && f.nameAt != p.fields[i+n-1].end+1 {
			break
		}
	}
	return n
}

const (
	failureEdits = 4   // how many fields a failure sets, mostly
	failureTexts = 160 // bytes of their texts, where the message is short
	intRoom      = 20  // bytes of any int64
	timeRoom     = 24  // of a timestamp
)

// Clone returns a payload that can be edited on its own.
func (p *Payload) Clone() *Payload {
	c := &clone{Payload: *p}
	c.fields = append(c.more[:0], p.fields...)
	c.edits = append(c.changes[:0], p.edits...)
	c.spare = c.texts[:0]
	return &c.Payload
}

// clone is a payload with room for what a failure edits.
type clone struct {
	Payload
	more    [fieldsRoom + failureEdits]field
	changes [failureEdits]edit
	texts   [failureTexts]byte
}

func validText(s string) string {
	if utf8.ValidString(s) { // eight bytes at a time
		return s
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
