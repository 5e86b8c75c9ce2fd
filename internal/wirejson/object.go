package wirejson

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// Object is an ordered JSON object whose values stay the text they came as. The zero
// value is an empty object. Reading is safe for concurrent use; editing is not.
type Object struct {
	raw    []byte // what was parsed, nil if nothing was
	fields []field
	edits  []edit
	marks  keyMarks
	spare  []byte // room for the texts of edits, from its length on

	edited       bool
	escapedKeys  bool // some key in raw is written with escapes
	escapedTexts bool // some string in raw, a value of a field, is
}

// Room is where Parse puts the fields of an ordinary job: an object and its room are
// one allocation.
type Room struct{ fields [fieldsRoom]field }

// field is one key with its value: offsets into raw, small and free of
// pointers, since this is made for each job.
type field struct {
	nameAt, nameEnd uint32 // of the key, quotes included; nameEnd 0 for a key that was added
	at, end         uint32 // of the value; if end is 0, at is its index in Object.edits
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
func (o *Object) cut(i, j uint32) string {
	text := o.raw[i:j]
	if len(o.raw) > copyBelow {
		return string(text)
	}
	return unsafe.String(unsafe.SliceData(text), len(text)) // raw is not modified any more
}

func (o *Object) key(f *field) string {
	switch {
	case f.added():
		return o.edits[f.at].key
	case o.escapedKeys:
		return Unquote(o.raw[f.nameAt:f.nameEnd])
	}
	return o.cut(f.nameAt+1, f.nameEnd-1)
}

func (o *Object) text(f *field) []byte {
	if f.edited() {
		return o.edits[f.at].text
	}
	return o.raw[f.at:f.end:f.end]
}

func (o *Object) find(key string) int {
	mark := markOf(key)
	if !o.marks.met(mark) {
		return -1
	}
	if i := o.marks.index(mark); uint(i) < uint(len(o.fields)) {
		f := &o.fields[i]
		if !f.added() && !o.escapedKeys && string(o.raw[f.nameAt+1:f.nameEnd-1]) == key {
			return i
		}
	}
	return o.search(key)
}

func (o *Object) search(key string) int {
	for i := range o.fields {
		if o.has(i, key) {
			return i
		}
	}
	return -1
}

// has reports whether field i has the key.
func (o *Object) has(i int, key string) bool {
	f := &o.fields[i]
	if f.added() || o.escapedKeys {
		return o.key(f) == key
	}
	return string(o.raw[f.nameAt+1:f.nameEnd-1]) == key
}

// Get returns the text of a field, which must not be modified.
func (o *Object) Get(key string) (json.RawMessage, bool) {
	if i := o.find(key); i >= 0 {
		return o.text(&o.fields[i]), true
	}
	return nil, false
}

// String returns a field that is a JSON string, decoded. A surrogate escape
// without its partner becomes U+FFFD; bytes that are not UTF-8 stay as they are.
func (o *Object) String(key string) (string, bool) {
	i := o.find(key)
	if i < 0 {
		return "", false
	}
	f := &o.fields[i]
	text := o.text(f)
	switch {
	case len(text) < 2 || text[0] != '"':
		return "", false
	case (f.edited() || o.escapedTexts) && bytes.IndexByte(text, '\\') >= 0:
		return Unquote(text), true
	case !f.edited():
		return o.cut(f.at+1, f.end-1), true
	}
	return string(text[1 : len(text)-1]), true
}

// Int returns a field that is a JSON integer within 64 bits; 5.0, 5e0 and "5"
// are none.
func (o *Object) Int(key string) (int64, bool) {
	raw, ok := o.Get(key)
	if !ok { // asked for at every run, and an error of strconv is an allocation
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

// Keys yields each key once, in the order of the object.
func (o *Object) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range o.fields {
			if !yield(o.key(&o.fields[i])) {
				return
			}
		}
	}
}

// ValidUTF8 tells whether all bytes are UTF-8. Ruby runs a job that is not,
// but loses it when it has to write it back.
func (o *Object) ValidUTF8() bool {
	if !o.edited {
		return utf8.Valid(o.raw)
	}
	for i := range o.fields {
		f := &o.fields[i]
		if !utf8.Valid(o.raw[f.nameAt:f.nameEnd]) || !utf8.Valid(o.text(f)) {
			return false
		}
	}
	return true
}
