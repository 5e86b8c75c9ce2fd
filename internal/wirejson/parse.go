package wirejson

import "bytes"

const (
	searchMax = 32        // with more keys than this, duplicates are found with a map
	maxRaw    = 1<<31 - 1 // bytes; Redis has no strings above 512 MB
)

// Parse checks and splits the bytes of an object in one pass, into an object that is
// empty. At a fault it returns where and what the fault is, else "". The object keeps a
// reference to raw, which must not be modified afterwards.
func (o *Object) Parse(raw []byte, room *Room) (int, string) {
	o.fields = room.fields[:0]
	i := SkipSpace(raw, 0)
	switch {
	case i == len(raw):
		return 0, "empty"
	case len(raw) > maxRaw:
		return maxRaw, "too large"
	case raw[i] != '{':
		return notObject(raw, i)
	}
	o.raw = raw
	i = SkipSpace(raw, i+1)
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
			if name, i, fault = o.scanName(raw, i); fault != "" {
				return i, fault
			}
			mark = markOf(raw[at+1 : name-1])
		}
		i = SkipSpace(raw, i)
		value, end := i, 0
		if i < len(raw) && raw[i] == '"' {
			if end = PlainString(raw, i); end == 0 {
				o.escapedTexts = true
			}
		}
		if end == 0 {
			if end, fault = ScanValue(raw, i, 1); fault != "" {
				return end, fault
			}
		}
		if n := len(o.fields); n < cap(o.fields) && !o.escapedKeys && !o.marks.met(mark) {
			o.marks.note(mark, n)
			o.fields = o.fields[:n+1]
			f := &o.fields[n] // each part set on its own: a copy of the whole waits for the parts
			f.nameAt, f.nameEnd, f.at, f.end = uint32(at), uint32(name), uint32(value), uint32(end)
		} else {
			o.add(field{nameAt: uint32(at), nameEnd: uint32(name), at: uint32(value), end: uint32(end)}, &many)
		}
		switch i = SkipSpace(raw, end); {
		case i >= len(raw):
			return i, "unexpected end"
		case raw[i] == '}':
			return afterObject(raw, i+1)
		case raw[i] != ',':
			return i, "expected , or } after a value"
		}
		i = SkipSpace(raw, i+1)
	}
}

func afterObject(raw []byte, i int) (int, string) {
	if i = SkipSpace(raw, i); i < len(raw) {
		return i, "text after the object"
	}
	return i, ""
}

// scanName reads any key and its colon. It returns the index behind each, at a
// fault where it is as the second.
func (o *Object) scanName(raw []byte, i int) (name, next int, fault string) {
	if i >= len(raw) {
		return 0, i, "unexpected end"
	}
	if raw[i] != '"' {
		return 0, i, "expected a key in quotes"
	}
	if name = PlainString(raw, i); name == 0 {
		o.escapedKeys = true
		if name, fault = scanString(raw, i); fault != "" {
			return 0, name, fault
		}
	}
	next, fault = scanColon(raw, name)
	return name, next, fault
}

// add appends f. If a field with its key is there already, that field gets the value of f.
func (o *Object) add(f field, many *keyMap) {
	key := o.key(&f)
	mark := markOf(key)
	if o.marks.met(mark) {
		if at := many.find(o, key); at >= 0 {
			o.fields[at].at, o.fields[at].end = f.at, f.end
			return
		}
	}
	o.marks.note(mark, len(o.fields))
	o.fields = append(o.fields, f)
}

// keyMap finds duplicates among many keys while a payload is parsed.
type keyMap struct {
	at    map[string]int
	known int // fields that are in it
}

func (m *keyMap) find(o *Object, key string) int {
	if len(o.fields) <= searchMax {
		return o.search(key)
	}
	if m.at == nil {
		m.at = make(map[string]int, 2*len(o.fields))
	}
	for ; m.known < len(o.fields); m.known++ {
		m.at[o.key(&o.fields[m.known])] = m.known
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
	if at, fault := ScanWhole(raw, 0); fault != "" {
		return at, fault
	}
	return i, "not an object but " + KindOf(raw[i:])
}
