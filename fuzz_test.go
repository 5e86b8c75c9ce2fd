package troupe

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzParsePayload: parses exactly the objects that encoding/json finds valid,
// up to MaxDepth, with the same keys and values; edits keep the rest.
func FuzzParsePayload(f *testing.F) {
	for _, raw := range slices.Concat(scanSamples, rubyPayloads) {
		f.Add([]byte(raw))
	}
	f.Add([]byte(strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkScan(t, raw)
		p, err := ParsePayload(raw)
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
		edited, err := ParsePayload(p.Bytes())
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

// FuzzDecodeArgs: never panics, fails with ArgsErrors only, reads the same in
// the quick way as in the general one, and what fits survives an encode and a
// second decode.
func FuzzDecodeArgs(f *testing.F) {
	for _, raw := range []string{
		``, `null`, `[]`, `{}`, `[1,2,"EUR"]`, `["a",3,true]`, `["a",null]`, `[[],{},{"zip":1},1,1e3,"2026-11-21T03:14:41Z","aGk="]`,
		`[{"Addr":{"city":"x"}}]`, `["\ud800"]`, "[\"\xff\"]", `[1,`, `[-128,65535,1e38,false]`, `[{"a":1}]`, `["n",1,2,3]`,
	} {
		f.Add([]byte(raw))
	}
	types := []any{charge{}, optional{}, variadic{}, mixed{}, object{}, empty{}, list{}, dict{}, word(""), numbers{}, stamp{}, []any{}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, v := range types {
			first := reflect.New(reflect.TypeOf(v))
			err := DecodeArgs(raw, first.Interface())
			checkGeneral(t, raw, first, err)
			if err != nil {
				if fault, ok := errors.AsType[*ArgsError](err); !ok || fault.Expected == "" || fault.Got == "" || !utf8.ValidString(err.Error()) {
					t.Fatalf("%q into %T: %T %v", raw, v, err, err)
				}
				continue
			}
			text, err := EncodeArgs(first.Interface())
			if err != nil && strings.Contains(err.Error(), "too large") { // a number that is no double, in an any
				continue
			}
			if err != nil {
				t.Fatalf("%q into %T: %v", raw, v, err)
			}
			second := reflect.New(reflect.TypeOf(v))
			if err := DecodeArgs(text, second.Interface()); err != nil {
				t.Fatalf("%q into %T, again from %q: %v", raw, v, text, err)
			}
			if again, err := EncodeArgs(second.Interface()); err != nil || !bytes.Equal(again, text) {
				t.Fatalf("%q into %T: %q becomes %q, %v", raw, v, text, again, err)
			}
		}
	})
}

// FuzzEncodeJSON: what encoding/json decodes is encoded to valid JSON without
// escapes that Ruby would not write, and decodes equal.
func FuzzEncodeJSON(f *testing.F) {
	for _, raw := range slices.Concat(scanSamples, rubyPayloads, oddTexts) {
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
		text, err := EncodeJSON(want)
		if err != nil {
			fault, ok := errors.AsType[*EncodeError](err)
			if s, isText := want.(string); ok && (isText && !utf8.ValidString(s) || fault.Reason == tooDeep().Reason ||
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
