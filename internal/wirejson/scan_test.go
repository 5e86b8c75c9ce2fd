package wirejson

import (
	"strings"
	"testing"
)

func TestUnquote(t *testing.T) {
	for text, want := range map[string]string{
		`""`:                         "",
		`"plain"`:                    "plain",
		`"\"\\\/\b\f\n\r\t"`:         "\"\\/\b\f\n\r\t",
		`"\u0000\u00e9\u20AC"`:       "\x00é€",
		`"\ud83d\ude00!"`:            "😀!",
		`"\ud83d!"`:                  "\ufffd!",
		`"\ude00\ud83d"`:             "\ufffd\ufffd",
		`"\ud83d\ud83d\ude00"`:       "\ufffd😀",
		`"\ud83d\u0041"`:             "\ufffdA",
		`"\ud83d\n"`:                 "\ufffd\n",
		"\"\xff\"":                   "\xff",
		`5`:                          "",
		`"`:                          "",
		`"\u1"`:                      "\ufffd", // never from a parsed payload, but from a careless Set
		`"\"`:                        `\`,
		"\"\u2028\u2029\U0001f600\"": "\u2028\u2029\U0001f600",
	} {
		if got := Unquote([]byte(text)); got != want {
			t.Errorf("Unquote(%s) = %q, want %q", text, got, want)
		}
	}
}

// Words of eight bytes are looked at as one: each byte value at each place of
// one, among digits, letters and bytes of either extreme.
func TestWordsAreReadAsBytesAre(t *testing.T) {
	for _, fill := range []byte{'5', 'x', 0x80, 0xff, ' '} {
		for at := range 18 {
			for c := range 256 {
				b := []byte(`"` + strings.Repeat(string([]byte{fill}), 20) + `"`)
				b[1+at] = byte(c)
				want := 1
				for b[want] >= ' ' && b[want] != '\\' && b[want] != '"' {
					want++
				}
				if want++; b[want-1] != '"' {
					want = 0
				}
				if got := PlainString(b, 0); got != want {
					t.Fatalf("%q: PlainString = %d, want %d", b, got, want)
				}
				if got, fault := scanString(b, 0); want > 0 && (got != want || fault != "") {
					t.Fatalf("%q: scanString = %d, %q, want %d", b, got, fault, want)
				}
				digits := 1
				for IsDigit(b[digits]) {
					digits++
				}
				if got := skipDigits(b, 1); got != digits {
					t.Fatalf("%q: skipDigits = %d, want %d", b, got, digits)
				}
			}
		}
	}
}
