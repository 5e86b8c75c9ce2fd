package troupe

import (
	"bytes"
	"fmt"
)

const (
	searchMax = 32        // with more keys than this, duplicates are found with a map
	maxRaw    = 1<<31 - 1 // bytes; Redis has no strings above 512 MB
)

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
// MaxDepth) and valid JSON that is not an object. Bytes in strings that are
// not UTF-8 parse, as in Ruby; see ValidUTF8. Of a key that comes twice the
// last value counts.
//
// The payload keeps a reference to raw, which must not be modified afterwards.
func ParsePayload(raw []byte) (*Payload, error) {
	p := new(parsed)
	p.fields = p.room[:0]
	if at, fault := p.parse(raw); fault != "" {
		return nil, &PayloadError{Reason: fault, Offset: at}
	}
	return &p.Payload, nil
}

func (p *Payload) parse(raw []byte) (int, string) {
	i := skipSpace(raw, 0)
	switch {
	case i == len(raw):
		return 0, "empty"
	case len(raw) > maxRaw:
		return maxRaw, "too large"
	case raw[i] != '{':
		return notObject(raw, i)
	}
	p.raw = raw
	i = skipSpace(raw, i+1)
	if i < len(raw) && raw[i] == '}' {
		return afterObject(raw, i+1)
	}
	var (
		many  keyMap
		fault string
		next  int // in keyOrder
	)
	for {
		at, name, mark := i, 0, uint(0)
		if next < len(keyOrder) && keyOrder[next].at(raw, i) {
			i += keyOrder[next].size
			name, mark = i-1, keyOrder[next].mark
			next++
		} else {
			if name, i, fault = p.scanName(raw, i); fault != "" {
				return i, fault
			}
			mark = markOf(raw[at+1 : name-1])
		}
		i = skipSpace(raw, i)
		value, end := i, 0
		if i < len(raw) && raw[i] == '"' {
			if end = plainString(raw, i); end == 0 {
				p.escapedTexts = true
			}
		}
		if end == 0 {
			if end, fault = scanValue(raw, i, 1); fault != "" {
				return end, fault
			}
		}
		if n := len(p.fields); n < cap(p.fields) && !p.escapedKeys && !p.marks.met(mark) {
			p.marks.note(mark, n)
			p.fields = p.fields[:n+1]
			f := &p.fields[n] // each part set on its own: a copy of the whole waits for the parts
			f.nameAt, f.nameEnd, f.at, f.end = uint32(at), uint32(name), uint32(value), uint32(end)
		} else {
			p.add(field{nameAt: uint32(at), nameEnd: uint32(name), at: uint32(value), end: uint32(end)}, &many)
		}
		switch i = skipSpace(raw, end); {
		case i >= len(raw):
			return i, "unexpected end"
		case raw[i] == '}':
			return afterObject(raw, i+1)
		case raw[i] != ',':
			return i, "expected , or } after a value"
		}
		i = skipSpace(raw, i+1)
	}
}

func afterObject(raw []byte, i int) (int, string) {
	if i = skipSpace(raw, i); i < len(raw) {
		return i, "text after the object"
	}
	return i, ""
}

// scanName reads any key and its colon. It returns the index behind each, at a
// fault where it is as the second.
func (p *Payload) scanName(raw []byte, i int) (name, next int, fault string) {
	if i >= len(raw) {
		return 0, i, "unexpected end"
	}
	if raw[i] != '"' {
		return 0, i, "expected a key in quotes"
	}
	if name = plainString(raw, i); name == 0 {
		p.escapedKeys = true
		if name, fault = scanString(raw, i); fault != "" {
			return 0, name, fault
		}
	}
	next, fault = scanColon(raw, name)
	return name, next, fault
}

// add appends f, or gives its value to the field that has its key already.
func (p *Payload) add(f field, many *keyMap) {
	key := p.key(&f)
	mark := markOf(key)
	if p.marks.met(mark) {
		if at := many.find(p, key); at >= 0 {
			p.fields[at].at, p.fields[at].end = f.at, f.end
			return
		}
	}
	p.marks.note(mark, len(p.fields))
	p.fields = append(p.fields, f)
}

// keyMap finds duplicates among many keys while a payload is parsed.
type keyMap struct {
	at    map[string]int
	known int // fields that are in it
}

func (m *keyMap) find(p *Payload, key string) int {
	if len(p.fields) <= searchMax {
		return p.search(key)
	}
	if m.at == nil {
		m.at = make(map[string]int, 2*len(p.fields))
	}
	for ; m.known < len(p.fields); m.known++ {
		m.at[p.key(&p.fields[m.known])] = m.known
	}
	if at, ok := m.at[key]; ok {
		return at
	}
	return -1
}

func notObject(raw []byte, i int) (int, string) {
	if bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")) {
		return 0, "byte order mark"
	}
	if at, fault := scanWhole(raw, 0); fault != "" {
		return at, fault
	}
	return i, "not an object but " + kindOf(raw[i:])
}
