package troupe

import (
	"bytes"
	"fmt"
	"unsafe"
)

const (
	searchMax = 32        // with more keys than this, duplicates are found with a map
	maxRaw    = 1<<31 - 1 // bytes; Redis has no strings above 512 MB
)

// PayloadError says why bytes are not a job.
type PayloadError struct {
	Reason string // "not an object", "unexpected end", …; never contains data of the job
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
	p := new(Payload)
	if at, fault := p.parse(raw); fault != "" {
		return nil, &PayloadError{Reason: fault, Offset: at}
	}
	return p, nil
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
	if len(raw) <= copyBelow {
		p.src = unsafe.String(unsafe.SliceData(raw), len(raw)) // raw is not modified any more
	}
	p.fields = p.room[:0]
	var seen keySet
	i = skipSpace(raw, i+1)
	for first := true; ; first = false {
		if i >= len(raw) {
			return i, "unexpected end"
		}
		if first && raw[i] == '}' {
			break
		}
		if raw[i] != '"' {
			return i, "expected a key in quotes"
		}
		f := field{nameAt: uint32(i)}
		end, fault := p.scanName(i)
		if fault != "" {
			return end, fault
		}
		f.nameEnd = uint32(end)
		if i, fault = scanColon(raw, end); fault != "" {
			return i, fault
		}
		i = skipSpace(raw, i)
		f.at = uint32(i)
		if i, fault = scanValue(raw, i, 1); fault != "" {
			return i, fault
		}
		f.end = uint32(i)
		if dup := seen.add(p, &f); dup >= 0 {
			p.fields[dup].at, p.fields[dup].end = f.at, f.end
		} else {
			p.fields = append(p.fields, f)
		}
		i = skipSpace(raw, i)
		if i >= len(raw) {
			return i, "unexpected end"
		}
		if raw[i] == '}' {
			break
		}
		if raw[i] != ',' {
			return i, "expected , or } after a value"
		}
		i = skipSpace(raw, i+1)
	}
	if i = skipSpace(raw, i+1); i < len(raw) {
		return i, "text after the object"
	}
	return i, ""
}

// scanName is scanString for the keys of the job, which are short words nearly
// always.
func (p *Payload) scanName(i int) (int, string) {
	raw, j := p.raw, i+1
	for j < len(raw) && (raw[j] >= 'a' && raw[j] <= 'z' || raw[j] == '_') {
		j++
	}
	if j < len(raw) && raw[j] == '"' {
		return j + 1, ""
	}
	end, fault := scanString(raw, i)
	if fault == "" && bytes.IndexByte(raw[i:end], '\\') >= 0 {
		p.escapedKeys = true
	}
	return end, fault
}

// keySet finds duplicate keys while a payload is parsed.
type keySet struct {
	bits uint64 // one bit per key met, of 64: most keys are new at a glance
	many map[string]int
}

// add notes the key of f, the next field of p, and returns the index of the
// field that has it already, or -1.
func (s *keySet) add(p *Payload, f *field) int {
	key := p.raw[f.nameAt+1 : f.nameEnd-1]
	if p.escapedKeys {
		key = []byte(p.key(f))
	}
	n := len(p.fields)
	if n > searchMax {
		if s.many == nil {
			s.many = make(map[string]int, 2*n)
			for i := range p.fields {
				s.many[p.key(&p.fields[i])] = i
			}
		}
		if at, ok := s.many[string(key)]; ok {
			return at
		}
		s.many[string(key)] = n
		return -1
	}
	bit := uint64(1)
	if len(key) > 0 {
		bit <<= (key[0]*5 + key[len(key)-1] + byte(len(key))*9) & 63
	}
	if s.bits&bit == 0 {
		s.bits |= bit
		return -1
	}
	return p.find(string(key))
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
