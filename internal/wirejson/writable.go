package wirejson

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// RubyFault finds what Ruby reads in valid JSON text, or some version of it, and cannot
// write: bytes that are not UTF-8, half of a surrogate pair, a number that is no double. It
// returns where and what the first one is, else "". A peer loses such a job, since it takes
// the job out of Redis before it writes it.
func RubyFault(text []byte) (int, string) { return peerFault(text, false) }

// PHPFault is RubyFault for Laravel: PHP cannot read such text, or the script with which it takes a job
// cannot write it, integers beyond the doubles included.
func PHPFault(text []byte) (int, string) { return peerFault(text, true) }

func peerFault(b []byte, integers bool) (int, string) {
	if !utf8.Valid(b) {
		at := 0
		for r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(b[at:]) {
			at += n
		}
		return at, "bytes that are not UTF-8"
	}
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c == '"':
			end := PlainString(b, i)
			if end == 0 {
				var broken string
				if end, broken = scanString(b, i); broken == "" {
					if at := unpaired(b[i:end]); at >= 0 {
						return i + at, "half of a surrogate pair"
					}
				}
			}
			i = end
		case c == '-' || IsDigit(c):
			end, _ := ScanNumber(b, i)
			if !isDouble(b[i:end], integers) {
				return i, "number beyond the largest double, 1.7976931348623157e+308"
			}
			i = end
		default:
			i++
		}
	}
	return 0, ""
}

// isDouble reports whether a number fits into a double. An integer counts as one that does, unless integers
// says that they are checked as well.
func isDouble(text []byte, integers bool) bool {
	const surely = 308 // so many digits
	exponent := bytes.IndexByte(text, 'e') >= 0 || bytes.IndexByte(text, 'E') >= 0
	if !exponent && (len(text) <= surely || !integers && bytes.IndexByte(text, '.') < 0) {
		return true
	}
	_, err := strconv.ParseFloat(string(text), 64)
	return err == nil
}

// unpaired returns the index of an escape in string text that is half of a surrogate pair, -1 if none is.
func unpaired(text []byte) int {
	for i := 0; ; {
		next := bytes.IndexByte(text[i:], '\\')
		if next < 0 {
			return -1
		}
		i += next
		if text[i+1] != 'u' {
			i += 2
			continue
		}
		switch r := hex4(text, i+2); {
		case r < 0xd800 || r > 0xdfff:
			i += 6
		case r < 0xdc00 && text[i+6] == '\\' && text[i+7] == 'u' && hex4(text, i+8)&^0x3ff == 0xdc00:
			i += 12
		default:
			return i
		}
	}
}

// Fault returns what RubyFault returns for the object in its present form.
func (o *Object) Fault() (int, string) {
	at, fault := RubyFault(o.raw)
	if !o.edited {
		return at, fault
	}
	clean := fault == ""
	for i := 0; i < len(o.edits) && clean; i++ {
		_, fault = RubyFault(o.edits[i].text)
		clean = fault == ""
	}
	if clean {
		return 0, ""
	}
	return RubyFault(o.Bytes()) // what was at fault may have been replaced
}
