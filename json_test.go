package troupe

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// scanSamples seed the fuzz target and are checked on every run.
var scanSamples = []string{
	``, ` `, `{}`, `[]`, `{"a":1}`, ` { "a" : [ 1 , 2.5 , -0 , 1e9 , 1E-7 , 0.1e+3 ] } `,
	`{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud800"}`, `{"a":{"b":{"c":null}}}`, `[true,false,null]`,
	`{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":-}`, `{"a":1e}`, `{"a":1e+}`, `{"a":+1}`, `{"a":0x1}`,
	`{"a":tru}`, `{"a":nulll}`, `{"a":NaN}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\u12G4"}`, `{"a":"`,
	`{"a":"\`, `{"a":"\u`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a":[1,]}`, `{"a":[,]}`,
	`[1 2]`, `[1`, `[`, `{`, `{]`, `[}`, `{"a":1}}`, `{"a":1}//`, "{\"a\":\"\t\"}", "{\"a\":\"\x7f\xff\xc3\"}",
	"{\"a\":\"1234567\xe9\"}", "{\"a\":\"12345678\x1f\"}", "{\"a\xa2\xdc\":1}", "{\"\x00\":1}", "\xef\xbb\xbf{}", "{\v}",
	`"x"`, `5`, `null`, `{"a":1,"a":2}`, `{"":0}`,
}

// checkScan compares ParsePayload with encoding/json for one text.
func checkScan(t *testing.T, raw []byte) {
	t.Helper()
	before := bytes.Clone(raw)
	p, err := ParsePayload(raw)
	object := bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
	want := json.Valid(raw) && object && depthOf(raw) <= MaxDepth
	if got := err == nil; got != want {
		t.Fatalf("ParsePayload(%q): %v, want it to parse: %v", raw, err, want)
	}
	if !bytes.Equal(raw, before) {
		t.Fatalf("%q was changed to %q", before, raw)
	}
	if err != nil {
		return
	}
	if !bytes.Equal(p.Bytes(), raw) {
		t.Fatalf("unchanged %q: Bytes() = %q", raw, p.Bytes())
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	if !p.ValidUTF8() {
		return // encoding/json replaces such bytes, the payload keeps them
	}
	n := 0
	for key := range p.Keys() {
		got, _ := p.Get(key)
		if want, ok := fields[key]; !ok || !bytes.Equal(got, want) {
			t.Fatalf("%q: field %q = %q, want %q", raw, key, got, want)
		}
		var want string
		if got, ok := p.String(key); ok && (json.Unmarshal(fields[key], &want) != nil || got != want) {
			t.Fatalf("%q: String(%q) = %q, want %q", raw, key, got, want)
		}
		n++
	}
	if n != len(fields) {
		t.Fatalf("%q: %d fields, want %d", raw, n, len(fields))
	}
}

// depthOf counts the deepest nesting of valid JSON.
func depthOf(raw []byte) int {
	depth, deepest, inString := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

func TestScanAgreesWithEncodingJSON(t *testing.T) {
	for _, sample := range scanSamples {
		checkScan(t, []byte(sample))
		// Each byte value at each place of a sample.
		for i := range len(sample) {
			for _, c := range []byte("\x00\x1f \"\\/{}[]:,0-eEtu.\x7f\x80\xff") {
				changed := []byte(sample)
				changed[i] = c
				checkScan(t, changed)
			}
		}
	}
	for _, depth := range []int{99, 100, 101, 102} {
		checkScan(t, []byte(strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth)))
	}
}

// The scan looks at eight bytes at a time: every byte at every offset.
func TestScanStringFindsEveryByte(t *testing.T) {
	for offset := range 20 {
		for c := range 256 {
			text := bytes.Repeat([]byte{'\x80'}, 20)
			text[offset] = byte(c)
			raw := append(append([]byte(`{"k":"`), text...), `"}`...)
			_, err := ParsePayload(raw)
			if want := json.Valid(raw); (err == nil) != want {
				t.Fatalf("byte %#02x at %d: %v, want it to parse: %v", c, offset, err, want)
			}
		}
	}
}

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
		if got := unquote([]byte(text)); got != want {
			t.Errorf("unquote(%s) = %q, want %q", text, got, want)
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
				if got := plainString(b, 0); got != want {
					t.Fatalf("%q: plainString = %d, want %d", b, got, want)
				}
				if got, fault := scanString(b, 0); want > 0 && (got != want || fault != "") {
					t.Fatalf("%q: scanString = %d, %q, want %d", b, got, fault, want)
				}
				digits := 1
				for isDigit(b[digits]) {
					digits++
				}
				if got := skipDigits(b, 1); got != digits {
					t.Fatalf("%q: skipDigits = %d, want %d", b, got, digits)
				}
			}
		}
	}
}
