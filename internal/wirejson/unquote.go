package wirejson

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote decodes JSON string text, quotes included. A surrogate without its
// partner becomes U+FFFD; bytes that are not UTF-8 stay. Text that is not a
// string gives "".
func Unquote(text []byte) string {
	if len(text) < 2 || text[0] != '"' {
		return ""
	}
	b := text[1 : len(text)-1]
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		if b[i] != '\\' || i+1 >= len(b) {
			out = append(out, b[i])
			i++
			continue
		}
		if b[i+1] != 'u' {
			out = append(out, plainEscape(b[i+1]))
			i += 2
			continue
		}
		r := hex4(b, i+2)
		i += 6
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if i+1 < len(b) && b[i] == '\\' && b[i+1] == 'u' {
				pair = utf16.DecodeRune(r, hex4(b, i+2))
			}
			if pair != utf8.RuneError {
				i += 6
			}
			r = pair
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

// Text decodes JSON string text; false for any other.
func Text(text []byte) (string, bool) {
	if len(text) < 2 || text[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : len(text)-1]), true
	}
	return Unquote(text), true
}

// Number reads a number, or a string with one, without its fraction; ±Inf beyond the largest double.
func Number(text []byte) (float64, bool) {
	s := string(text)
	if KindOf(text) != "a number" {
		var ok bool
		if s, ok = Text(text); !ok {
			return 0, false
		}
		s = strings.TrimSpace(s)
		// ParseFloat knows more than JSON: "inf", "0x10", "1_0".
		if s == "" || strings.Trim(s, "0123456789+-.eE") != "" {
			return 0, false
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(n, 0) { // 1e999 is a number, if a strange one
		return 0, false
	}
	return math.Trunc(n), true
}

// Elements returns the texts of the elements of an array; nil for any other text.
func Elements(array []byte) (list []json.RawMessage) {
	if len(array) == 0 || array[0] != '[' || json.Unmarshal(array, &list) != nil {
		return nil
	}
	return list
}

func plainEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // " \ /
}

// KindOf names the type of JSON text by its first byte.
func KindOf(text []byte) string {
	if len(text) == 0 {
		return "nothing"
	}
	switch text[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// hex4 reads four hex digits at b[i]; -1 if they are not there.
func hex4(b []byte, i int) rune {
	if i+4 > len(b) {
		return -1
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case IsDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
