package inspect

import (
	"strings"
	"unicode/utf8"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/wirejson"
	"github.com/troupehq/troupe/internal/words"
)

// missing is how many bytes of the job were not read.
func (t text) missing() int64 { return t.size - int64(len(t.head)) - int64(len(t.tail)) }

// shown is a job of which only the ends are known, as JSON again: the field in which it was cut says
// how much more there is, and the fields behind that one are those of the tail. It is the head
// if that does not begin an object.
func (t text) shown() string {
	if !t.cut() {
		return t.head
	}
	whole, ok := closeObject(t.head, note(t.missing()))
	if !ok {
		return t.head
	}
	if fields := fieldsAt(t.tail); fields != "" {
		return strings.TrimSuffix(whole, "}") + "," + fields
	}
	return whole
}

// within is the job whose text is a string in a cut one: what follows the note was never read.
func (t text) within(raw string) text {
	if !t.cut() {
		return text{head: raw, size: int64(len(raw))}
	}
	head, _, cut := strings.Cut(raw, note(t.missing()))
	if !cut {
		return text{head: raw, size: int64(len(raw))}
	}
	tail := ""
	if at := len(t.tail) - len(fieldsAt(t.tail)) - len(`",`); at > 0 {
		for skip := range min(at, len(`\uffff`)) { // it may begin within an escape
			if text, ok := wirejson.Text([]byte(`"` + t.tail[skip:at] + `"`)); ok {
				tail = text
				break
			}
		}
	}
	return text{head: head, tail: tail, size: t.size}
}

// note tells how many bytes are not shown.
func note(n int64) string { return " … and " + words.Size(n) + " more" }

// closeObject ends an object of JSON that was cut off, with a note where it was cut; false if it is none.
func closeObject(head, note string) (string, bool) {
	if !strings.HasPrefix(strings.TrimLeft(head, " \t\r\n"), "{") {
		return "", false
	}
	var open []byte              // closing brackets of what is open
	whole, empty := 0, true      // up to there values are complete
	before, key := byte(0), true // the last of {[,: and whether the string is a key
	start, last := -1, 0         // of the string that is open, and where its last whole character ends
	for i := 0; i < len(head); i++ {
		c := head[i]
		if start >= 0 {
			switch {
			case c == '\\':
				n := 2
				if i+1 < len(head) && head[i+1] == 'u' {
					n = 6
				}
				if i+n > len(head) {
					i = len(head)
					continue
				}
				i += n - 1
				last = i + 1
			case c == '"':
				start = -1
				if !key {
					whole, empty = i+1, false
				}
			case utf8.RuneStart(c):
				last = i
				if c < utf8.RuneSelf {
					last = i + 1
				}
			}
			continue
		}
		switch c {
		case '"':
			start, last = i, i+1
			key = len(open) > 0 && open[len(open)-1] == '}' && before != ':'
		case '{', '[':
			open, before = append(open, c+2), c // } and ] are two behind
			whole, empty = i+1, true
		case '}', ']':
			if len(open) <= 1 {
				return "", false // more follows the object
			}
			open = open[:len(open)-1]
			whole, empty, before = i+1, false, c
		case ',':
			whole, empty, before = i, false, c
		case ':':
			before = c
		}
	}
	if len(open) == 0 {
		return "", false
	}
	var b strings.Builder
	switch inner := open[len(open)-1]; {
	case start >= 0 && !key:
		b.WriteString(head[:last] + note + `"`)
	default:
		b.WriteString(head[:whole])
		if !empty {
			b.WriteByte(',')
		}
		if inner == '}' {
			b.WriteString(`"…":`)
		}
		b.WriteString(`"` + note + `"`)
	}
	for n := range open {
		b.WriteByte(open[len(open)-1-n])
	}
	return b.String(), true
}

// fieldsAt returns the fields of an object that are whole at its end, up to its last bracket; "" if none
// is. What begins behind a comma and closes with the very end is on the outermost level: deeper
// down a bracket would be left over, and inside of a string the end would be.
func fieldsAt(tail string) string {
	for at := 0; ; {
		next := strings.Index(tail[at:], `,"`)
		if next < 0 {
			return ""
		}
		at += next + 1
		_, err := troupe.ParsePayload([]byte("{" + tail[at:]))
		if err == nil {
			return tail[at:]
		}
		if fault, ok := errchain.As[*troupe.PayloadError](err); ok && fault.Offset > 2 {
			at += min(fault.Offset-2, len(tail)-at) // what is before that bracket is no deeper
		}
	}
}
