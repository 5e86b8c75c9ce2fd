package wirejson_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/wirejson"
)

// checkScan compares ParsePayload with encoding/json for one text.
func checkScan(t *testing.T, raw []byte) {
	t.Helper()
	before := bytes.Clone(raw)
	p, err := troupe.ParsePayload(raw)
	object := bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
	want := json.Valid(raw) && object && depthOf(raw) <= wirejson.MaxDepth
	if got := err == nil; got != want {
		t.Fatalf("troupe.ParsePayload(%q): %v, want it to parse: %v", raw, err, want)
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
	for _, sample := range wirejson.ScanSamples {
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
			_, err := troupe.ParsePayload(raw)
			if want := json.Valid(raw); (err == nil) != want {
				t.Fatalf("byte %#02x at %d: %v, want it to parse: %v", c, offset, err, want)
			}
		}
	}
}
