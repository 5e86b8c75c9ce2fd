package wirejson

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// appendFloat writes the shortest digits that read back as f, the way Ruby's
// Float#to_s does, and version 2.6 of its json gem with it (Debian 12): always a
// fraction; an exponent below 1e-4 and for whole numbers from 1e15 on.
func appendFloat(dst []byte, f float64, bits int) ([]byte, *Fault) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, &Fault{Reason: strconv.FormatFloat(f, 'g', -1, 64) + " is not a JSON number"}
	}
	if bits == 32 { // Ruby reads the digits as those of a double
		f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'g', -1, 32), 64)
		bits = 64
	}
	if size := math.Abs(f); size == 0 || size >= 1e-4 && (size < 1e15 || f != math.Trunc(f)) {
		start := len(dst)
		dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
		if !slices.Contains(dst[start:], '.') {
			dst = append(dst, ".0"...)
		}
		return dst, nil
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, bits), "e")
	dst = append(dst, digits...)
	if !strings.Contains(digits, ".") {
		dst = append(dst, ".0"...)
	}
	return append(append(dst, 'e'), exponent...), nil
}

func appendNumber(dst []byte, n json.Number) ([]byte, *Fault) {
	if n == "" {
		n = "0" // as encoding/json has it
	}
	if end, fault := ScanNumber([]byte(n), 0); fault != "" || end != len(n) {
		return nil, &Fault{Reason: "json.Number " + strconv.Quote(string(n)) + " is not a number"}
	}
	out, ok := appendNumberText(dst, []byte(n))
	if !ok {
		return nil, &Fault{Reason: tooLarge(fmt.Sprintf("json.Number %.40q", string(n)))}
	}
	return out, nil
}

func appendBase64(dst, data []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

func appendCheckedString(dst []byte, s string) ([]byte, *Fault) {
	if !utf8.ValidString(s) {
		return nil, &Fault{Reason: "string is not valid UTF-8"}
	}
	return appendString(dst, s), nil
}

// appendString writes a JSON string with Ruby's escapes: quote, backslash and
// the control characters below space, nothing else.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for start, i := 0, 0; ; i, start = i+1, i+1 {
		if i = plainTo(s, i); i == len(s) {
			return append(append(dst, s[start:]...), '"')
		}
		dst = append(dst, s[start:i]...)
		switch c := s[i]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
}

// plainTo returns the index from i on of the first byte of s that needs an escape,
// len(s) if none does.
func plainTo(s string, i int) int {
	const spaces = 0x2020202020202020
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	for ; i+8 <= len(b); i += 8 {
		if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	if rest := 8 * (len(b) - i); rest > 0 && len(b) >= 8 { // the last eight without those before i
		w := binary.LittleEndian.Uint64(b[len(b)-8:])>>(64-rest) | spaces<<rest
		if m := special(w); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		return len(b)
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}
