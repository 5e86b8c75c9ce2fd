package wirejson

import (
	"encoding/binary"
	"math/bits"
)

// MaxDepth is how deep arrays and objects of a job may nest, the job object
// itself counted: Ruby's parser refuses level 101.
const MaxDepth = 100

// The scan functions check JSON text (RFC 8259) in one pass. Each takes the
// text and the index to start at and returns the index behind what it has
// read; at a fault it returns where and what the fault is. A fault is a plain
// string, empty for none, since this runs once per byte of every job.
//
// They accept exactly what encoding/json accepts, except for MaxDepth.

// ScanValue reads the value that starts at b[i], inside depth open containers.
func ScanValue(b []byte, i, depth int) (int, string) {
	if i >= len(b) {
		return i, "unexpected end"
	}
	switch c := b[i]; c {
	case '"':
		return scanString(b, i)
	case '{':
		return scanObject(b, i, depth+1)
	case '[':
		return scanArray(b, i, depth+1)
	case 't':
		return scanWord(b, i, "true")
	case 'f':
		return scanWord(b, i, "false")
	case 'n':
		return scanWord(b, i, "null")
	default:
		if c == '-' || IsDigit(c) {
			return ScanNumber(b, i)
		}
		return i, "invalid value"
	}
}

// scanObject reads the object that starts at b[i] and is the depth-th open container.
func scanObject(b []byte, i, depth int) (int, string) {
	if depth > MaxDepth {
		return i, "nested deeper than 100 levels"
	}
	i = SkipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1, ""
	}
	for {
		var fault string
		if i, fault = scanKey(b, i); fault != "" {
			return i, fault
		}
		if i, fault = ScanValue(b, SkipSpace(b, i), depth); fault != "" {
			return i, fault
		}
		i = SkipSpace(b, i)
		switch {
		case i >= len(b):
			return i, "unexpected end"
		case b[i] == ',':
			i = SkipSpace(b, i+1)
		case b[i] == '}':
			return i + 1, ""
		default:
			return i, "expected , or } after a value"
		}
	}
}

// scanKey reads a key and its colon.
func scanKey(b []byte, i int) (int, string) {
	if i >= len(b) {
		return i, "unexpected end"
	}
	if b[i] != '"' {
		return i, "expected a key in quotes"
	}
	i, fault := scanString(b, i)
	if fault != "" {
		return i, fault
	}
	return scanColon(b, i)
}

func scanColon(b []byte, i int) (int, string) {
	i = SkipSpace(b, i)
	if i >= len(b) {
		return i, "unexpected end"
	}
	if b[i] != ':' {
		return i, "expected : after a key"
	}
	return i + 1, ""
}

// scanArray reads the array that starts at b[i] and is the depth-th open container.
func scanArray(b []byte, i, depth int) (int, string) {
	if depth > MaxDepth {
		return i, "nested deeper than 100 levels"
	}
	i = SkipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1, ""
	}
	for {
		var fault string
		if i, fault = ScanValue(b, i, depth); fault != "" {
			return i, fault
		}
		i = SkipSpace(b, i)
		switch {
		case i >= len(b):
			return i, "unexpected end"
		case b[i] == ',':
			i = SkipSpace(b, i+1)
		case b[i] == ']':
			return i + 1, ""
		default:
			return i, "expected , or ] after a value"
		}
	}
}

// PlainString returns the index behind the string whose opening quote is b[i],
// or 0 if there is an escape in it, a fault or no end: then scanString tells.
func PlainString(b []byte, i int) int {
	i++
	for i+8 <= len(b) {
		if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			i += bits.TrailingZeros64(m) / 8
			if b[i] != '"' {
				return 0
			}
			return i + 1
		}
		i += 8
	}
	for ; i < len(b) && b[i] >= ' ' && b[i] != '\\'; i++ {
		if b[i] == '"' {
			return i + 1
		}
	}
	return 0
}

// scanString reads the string whose opening quote is b[i]. Bytes that are not
// UTF-8 pass, as they do in Ruby.
func scanString(b []byte, i int) (int, string) {
	i++
	for {
		for i+8 <= len(b) {
			if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				i += bits.TrailingZeros64(m) / 8
				if b[i] == '"' {
					return i + 1, ""
				}
				break
			}
			i += 8
		}
		for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
			i++
		}
		if i >= len(b) {
			return i, "unfinished string"
		}
		switch b[i] {
		case '"':
			return i + 1, ""
		case '\\':
			end, fault := scanEscape(b, i)
			if fault != "" {
				return end, fault
			}
			i = end
		default:
			return i, "control character in a string"
		}
	}
}

// special marks the bytes of w that are a quote, a backslash or below space by
// their highest bit. Only the lowest mark is sure to be true: above it, borrows
// may have made more.
func special(w uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return ((w - ones*' ') | (quote - ones) | (slash - ones)) &^ w & highs
}

func scanEscape(b []byte, i int) (int, string) {
	if i+1 >= len(b) {
		return len(b), "unfinished string"
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, ""
	case 'u':
		if hex4(b, i+2) < 0 {
			return i, "invalid \\u escape in a string"
		}
		return i + 6, ""
	}
	return i, "invalid escape in a string"
}

// ScanNumber reads the number that starts at b[i].
func ScanNumber(b []byte, i int) (int, string) {
	const fault = "invalid number"
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b) || !IsDigit(b[i]):
		return i, fault
	case b[i] == '0':
		i++
	default:
		i = skipDigits(b, i)
	}
	if i < len(b) && b[i] == '.' {
		i++
		if i >= len(b) || !IsDigit(b[i]) {
			return i, fault
		}
		i = skipDigits(b, i)
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if i >= len(b) || !IsDigit(b[i]) {
			return i, fault
		}
		i = skipDigits(b, i)
	}
	return i, ""
}

func scanWord(b []byte, i int, word string) (int, string) {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return i, "invalid value"
	}
	return i + len(word), ""
}

// SkipSpace returns the index of the first byte from b[i] on that is no space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

func skipDigits(b []byte, i int) int {
	for i+8 <= len(b) {
		if m := noDigits(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
	}
	for i < len(b) && IsDigit(b[i]) {
		i++
	}
	return i
}

// noDigits marks the bytes of w that are no decimal digits by their highest bit.
func noDigits(w uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	w ^= ones * '0' // 0 to 9 now
	return (w&^highs + ones*(128-10) | w) & highs
}

// IsDigit reports whether c is a decimal digit.
func IsDigit(c byte) bool { return c-'0' < 10 }

// ScanWhole checks that b holds one value and nothing else but space around it.
func ScanWhole(b []byte, depth int) (int, string) {
	i := SkipSpace(b, 0)
	if i == len(b) {
		return 0, "empty"
	}
	i, fault := ScanValue(b, i, depth)
	if fault != "" {
		return i, fault
	}
	if i = SkipSpace(b, i); i < len(b) {
		return i, "text after the value"
	}
	return i, ""
}
