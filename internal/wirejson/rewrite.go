package wirejson

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// appendRaw rewrites JSON text to what Ruby's JSON writes for the value that it
// reads there: without spaces, strings and numbers in their one form, of a key
// that comes twice the last value at its first position.
func appendRaw(dst, raw []byte, depth int) ([]byte, *Fault) {
	if raw == nil {
		return append(dst, "null"...), nil
	}
	if at, fault := ScanWhole(raw, depth); fault != "" {
		return nil, &Fault{Reason: fmt.Sprintf("invalid JSON at byte %d: %s", at, fault)}
	}
	if !utf8.Valid(raw) {
		return nil, &Fault{Reason: "string is not valid UTF-8"}
	}
	r := rewriter{src: raw, out: slices.Grow(dst, len(raw))}
	if _, err := r.value(SkipSpace(raw, 0)); err != nil {
		return nil, err
	}
	return r.out, nil
}

// rewriter is a rewrite under way. The functions that take an index start to
// read there and return the index behind what they have read.
type rewriter struct {
	src     []byte // valid JSON
	out     []byte
	members []member // of the objects that are open
}

// member is one key with its value: offsets into the rewriter's out.
type member struct{ key, keyEnd, value, end int }

func (r *rewriter) value(i int) (int, *Fault) {
	switch r.src[i] {
	case '"':
		return r.text(i)
	case '{':
		return r.object(i)
	case '[':
		return r.array(i)
	case 't', 'n':
		r.out = append(r.out, r.src[i:i+4]...)
		return i + 4, nil
	case 'f':
		r.out = append(r.out, "false"...)
		return i + 5, nil
	}
	end, _ := ScanNumber(r.src, i)
	out, ok := appendNumberText(r.out, r.src[i:end])
	if !ok {
		return i, &Fault{Reason: tooLarge(fmt.Sprintf("number %.40s at byte %d", r.src[i:end], i))}
	}
	r.out = out
	return end, nil
}

func (r *rewriter) text(i int) (int, *Fault) {
	if end := PlainString(r.src, i); end > 0 {
		r.out = append(r.out, r.src[i:end]...)
		return end, nil
	}
	end, _ := scanString(r.src, i)
	if at := unpaired(r.src[i:end]); at >= 0 {
		return i, &Fault{Reason: fmt.Sprintf("half of a surrogate pair, %s at byte %d", r.src[i+at:i+at+6], i+at)}
	}
	r.out = appendString(r.out, Unquote(r.src[i:end]))
	return end, nil
}

func (r *rewriter) array(i int) (_ int, err *Fault) {
	r.out = append(r.out, '[')
	for i = SkipSpace(r.src, i+1); r.src[i] != ']'; i = SkipSpace(r.src, i) {
		if r.src[i] == ',' {
			r.out = append(r.out, ',')
			i++
			continue
		}
		if i, err = r.value(i); err != nil {
			return i, err
		}
	}
	r.out = append(r.out, ']')
	return i + 1, nil
}

func (r *rewriter) object(i int) (_ int, err *Fault) {
	open, outer := len(r.out), len(r.members)
	r.out = append(r.out, '{')
	for i = SkipSpace(r.src, i+1); r.src[i] != '}'; i = SkipSpace(r.src, i) {
		if r.src[i] == ',' {
			r.out = append(r.out, ',')
			i++
			continue
		}
		m := member{key: len(r.out)}
		if i, err = r.text(i); err != nil {
			return i, err
		}
		m.keyEnd = len(r.out)
		r.out = append(r.out, ':')
		m.value = len(r.out)
		if i, err = r.value(SkipSpace(r.src, SkipSpace(r.src, i)+1)); err != nil {
			return i, err
		}
		m.end = len(r.out)
		if r.members == nil {
			r.members = make([]member, 0, 8)
		}
		r.members = append(r.members, m)
	}
	r.collapse(open, r.members[outer:])
	r.members = r.members[:outer]
	r.out = append(r.out, '}')
	return i + 1, nil
}

// collapse writes the object that begins at out[open] anew if a key comes twice
// in it.
func (r *rewriter) collapse(open int, all []member) {
	var indexes map[string]int // of the keys, if there are many
	if len(all) > searchMax {
		indexes = make(map[string]int, len(all))
	}
	twice := false
	for i := range all {
		m := &all[i]
		key := r.out[m.key:m.keyEnd]
		at := i
		if indexes == nil {
			at = slices.IndexFunc(all[:i+1], func(o member) bool { return bytes.Equal(r.out[o.key:o.keyEnd], key) })
		} else if known, ok := indexes[string(key)]; ok {
			at = known
		} else {
			indexes[string(key)] = i
		}
		if at < i {
			all[at].value, all[at].end = m.value, m.end
			m.end = 0 // it is no more
			twice = true
		}
	}
	if !twice {
		return
	}
	was := bytes.Clone(r.out[open:])
	r.out = r.out[:open+1]
	for _, m := range all {
		if m.end == 0 {
			continue
		}
		if len(r.out) > open+1 {
			r.out = append(r.out, ',')
		}
		r.out = append(append(r.out, was[m.key-open:m.keyEnd-open]...), ':')
		r.out = append(r.out, was[m.value-open:m.end-open]...)
	}
}

// appendNumberText writes a number as Ruby writes what it reads there: an integer
// of any length as it is, all else as the nearest double. It is false if that is
// none, since the number is too large.
func appendNumberText(dst, text []byte) ([]byte, bool) {
	if !bytes.ContainsAny(text, ".eE") {
		if string(text) == "-0" {
			text = text[1:]
		}
		return append(dst, text...), true
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return nil, false
	}
	dst, fault := appendFloat(dst, f, 64)
	return dst, fault == nil
}

func tooLarge(number string) string {
	return number + " is too large, expected at most 1.7976931348623157e+308, the largest double"
}
