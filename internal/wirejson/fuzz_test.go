package wirejson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/wirejson"
)

// FuzzParsePayload: parses exactly the objects that encoding/json finds valid,
// up to MaxDepth, with the same keys and values; edits keep the rest.
func FuzzParsePayload(f *testing.F) {
	for _, raw := range slices.Concat(wirejson.ScanSamples, wirejson.RubyPayloads) {
		f.Add([]byte(raw))
	}
	f.Add([]byte(strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkScan(t, raw)
		p, err := troupe.ParsePayload(raw)
		if err != nil {
			return
		}
		p.Class()
		p.HandlerClass()
		p.DisplayClass()
		p.Failures()
		before := p.Clone()
		for key := range before.Keys() {
			p.Time(key)
		}
		p.SetString("error_message", "x")
		edited, err := troupe.ParsePayload(p.Bytes())
		if err != nil {
			t.Fatalf("%q edited to %q: %v", raw, p.Bytes(), err)
		}
		for key := range before.Keys() {
			want, _ := before.Get(key)
			if got, ok := edited.Get(key); key != "error_message" && (!ok || !bytes.Equal(got, want)) {
				t.Fatalf("%q: field %q = %q after an edit, want %q", raw, key, got, want)
			}
		}
	})
}

// FuzzEncodeJSON: what encoding/json decodes is encoded to valid JSON without
// escapes that Ruby would not write, and decodes equal.
func FuzzEncodeJSON(f *testing.F) {
	for _, raw := range slices.Concat(wirejson.ScanSamples, wirejson.RubyPayloads, wirejson.OddTexts) {
		f.Add([]byte(raw))
	}
	decode := func(raw []byte) (v any, err error) {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		err = decoder.Decode(&v)
		return v, err
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want, err := decode(raw)
		if err != nil {
			want = string(raw)
		}
		text, err := job.EncodeJSON(want)
		if err != nil {
			fault, ok := errors.AsType[*troupe.EncodeError](err)
			if s, isText := want.(string); ok && (isText && !utf8.ValidString(s) || strings.HasPrefix(fault.Reason, "nested deeper") ||
				strings.Contains(fault.Reason, "too large")) {
				return
			}
			t.Fatalf("%q: %v", raw, err)
		}
		if !json.Valid(text) || !utf8.Valid(text) || bytes.Contains(text, []byte(`\u2028`)) && !bytes.Contains(text, []byte(`\\u2028`)) {
			t.Fatalf("%q becomes %q", raw, text)
		}
		got, err := decode(text)
		if diff := cmp.Diff(asRuby(want), asRuby(got)); err != nil || diff != "" {
			t.Fatalf("%q becomes %q, %v (-want +got):\n%s", raw, text, err, diff)
		}
	})
}

// asRuby replaces the numbers in a decoded value by what they are in Ruby: floats
// by doubles, integers by their digits.
func asRuby(v any) any {
	switch v := v.(type) {
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			f, _ := v.Float64()
			return f
		}
		if v == "-0" {
			return json.Number("0")
		}
	case []any:
		for i := range v {
			v[i] = asRuby(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = asRuby(v[key])
		}
	}
	return v
}
