package wirejson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Set makes value the text of a field: in place if the key exists, else at the
// end. value must be one JSON value and is neither checked nor copied; nil
// means null.
func (o *Object) Set(key string, value json.RawMessage) {
	if value == nil {
		value = json.RawMessage("null")
	}
	if len(o.edits) == cap(o.edits) {
		o.edits = slices.Grow(o.edits, failureEdits)
	}
	i := o.find(key)
	if i < 0 {
		o.marks.note(markOf(key), len(o.fields))
		o.fields = append(o.fields, field{at: uint32(len(o.edits))})
		o.edits = append(o.edits, edit{key: key, text: value})
		o.edited = true
		return
	}
	f := &o.fields[i]
	switch {
	case bytes.Equal(o.text(f), value):
		return
	case f.edited():
		o.edits[f.at].text = value
	default:
		f.at, f.end = uint32(len(o.edits)), 0
		o.edits = append(o.edits, edit{text: value})
	}
	o.edited = true
}

// SetString sets a field to a JSON string. Each run of bytes that is not UTF-8
// becomes one U+FFFD: such a job would be lost by Ruby.
func (o *Object) SetString(key, value string) {
	o.Set(key, appendString(o.Room(len(value)+2), validText(value)))
}

// Room returns an empty slice for n bytes of text, for Set.
func (o *Object) Room(n int) []byte {
	used := len(o.spare)
	if cap(o.spare)-used < n {
		return make([]byte, 0, n)
	}
	o.spare = o.spare[:used+n]
	return o.spare[used : used : used+n]
}

// SetInt sets a field to a JSON integer.
func (o *Object) SetInt(key string, value int64) {
	o.Set(key, strconv.AppendInt(o.Room(intRoom), value, 10))
}

// Delete removes a field; an absent one is no change.
func (o *Object) Delete(key string) {
	if i := o.find(key); i >= 0 {
		o.fields = slices.Delete(o.fields, i, i+1)
		o.edited = true
	}
}

// Bytes returns the object as JSON: the very bytes that were parsed if nothing
// has changed since, else the fields in order without spaces between them,
// every untouched name and value with its own text. The result must not be
// modified.
func (o *Object) Bytes() []byte {
	if o.raw != nil && !o.edited {
		return o.raw
	}
	size := len(o.raw) + 2
	for i := range o.edits {
		size += len(o.edits[i].key) + len(o.edits[i].text) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for i := 0; i < len(o.fields); i++ {
		f := &o.fields[i]
		if i > 0 {
			out = append(out, ',')
		}
		if n := o.asTheyStand(i); n > 0 {
			i += n - 1
			out = append(out, o.raw[f.nameAt:o.fields[i].end]...)
			continue
		}
		if !f.added() {
			out = append(out, o.raw[f.nameAt:f.nameEnd]...)
		} else {
			out = appendString(out, validText(o.key(f)))
		}
		out = append(out, ':')
		out = append(out, o.text(f)...)
	}
	return append(out, '}')
}

// asTheyStand counts the fields from the ith on that can be copied together:
// untouched, and with nothing but a colon in the fields and a comma between them.
func (o *Object) asTheyStand(i int) (n int) {
	for ; i+n < len(o.fields); n++ {
		f := &o.fields[i+n]
		if f.edited() || f.at != f.nameEnd+1 || n > 0 && f.nameAt != o.fields[i+n-1].end+1 {
			break
		}
	}
	return n
}

const (
	failureEdits = 4   // how many fields a failure sets, mostly
	failureTexts = 160 // bytes of their texts, where the message is short
	intRoom      = 20  // bytes of any int64
)

// CopyTo makes of c, an empty object, one that can be edited on its own.
func (o *Object) CopyTo(c *Object, room *CloneRoom) {
	*c = *o
	c.fields = append(room.fields[:0], o.fields...)
	c.edits = append(room.edits[:0], o.edits...)
	c.spare = room.texts[:0]
}

// CloneRoom is room for what a failure edits, as Room is for what was parsed.
type CloneRoom struct {
	fields [fieldsRoom + failureEdits]field
	edits  [failureEdits]edit
	texts  [failureTexts]byte
}

func validText(s string) string {
	if utf8.ValidString(s) { // eight bytes at a time
		return s
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
