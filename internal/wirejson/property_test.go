package wirejson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/wirejson"
)

// drawText draws the text of one JSON value.
func drawText(t *rapid.T, depth int) string {
	kinds := 3
	if depth == 0 {
		kinds = 1
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 1:
		text := "["
		for i := range rapid.IntRange(0, 3).Draw(t, "elements") {
			text += separator(t, i) + drawText(t, depth-1)
		}
		return text + "]"
	case 2:
		text := "{"
		for i := range rapid.IntRange(0, 3).Draw(t, "members") {
			text += separator(t, i) + drawString(t) + ":" + drawText(t, depth-1)
		}
		return text + "}"
	}
	if rapid.Bool().Draw(t, "string") {
		return drawString(t)
	}
	return rapid.SampledFrom(wirejson.OddTexts).Draw(t, "odd")
}

func drawString(t *rapid.T) string {
	text := harness.Must(job.EncodeJSON(rapid.String().Draw(t, "text")))(t)
	return string(text)
}

func separator(t *rapid.T, i int) string {
	if i == 0 {
		return ""
	}
	return "," + rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
}

// drawPayload draws the text of a job with its keys in order and their texts.
func drawPayload(t *rapid.T) (raw []byte, keys []string, texts map[string]string) {
	texts = make(map[string]string)
	key := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"class", "args", "jid", "queue", "retry", "retry_count", "cattr", "bid"}))
	raw = append(raw, '{')
	for range rapid.IntRange(0, 40).Draw(t, "fields") {
		k := key.Draw(t, "key")
		if _, dup := texts[k]; dup {
			continue
		}
		name, _ := job.EncodeJSON(k)
		text := drawText(t, 3)
		raw = append(raw, separator(t, len(keys))...)
		raw = append(append(append(raw, name...), ':'), text...)
		keys = append(keys, k)
		texts[k] = text
	}
	return append(raw, '}'), keys, texts
}

func TestEditsKeepAllOtherFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, keys, texts := drawPayload(t)
		p, err := troupe.ParsePayload(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if !bytes.Equal(p.Bytes(), raw) {
			t.Fatalf("%s: unchanged, Bytes() = %s", raw, p.Bytes())
		}
		c := p.Clone()
		for range rapid.IntRange(0, 8).Draw(t, "edits") {
			key := rapid.String().Draw(t, "edited")
			if len(keys) > 0 && rapid.Bool().Draw(t, "existing") {
				key = rapid.SampledFrom(keys).Draw(t, "edited")
			}
			_, had := texts[key]
			if rapid.Bool().Draw(t, "delete") {
				c.Delete(key)
				keys = slices.DeleteFunc(keys, func(k string) bool { return k == key })
				delete(texts, key)
				continue
			}
			text := drawText(t, 1)
			c.Set(key, json.RawMessage(text))
			if !had {
				keys = append(keys, key)
			}
			texts[key] = text
		}
		if !bytes.Equal(p.Bytes(), raw) {
			t.Fatalf("edits of a clone reached the original: %s", p.Bytes())
		}
		for _, p := range []*troupe.Payload{c, reparsed(t, c.Bytes())} {
			if got := slices.Collect(p.Keys()); !slices.Equal(got, keys) {
				t.Fatalf("keys %q, want %q", got, keys)
			}
			for _, key := range keys {
				if got, ok := p.Get(key); !ok || string(got) != texts[key] {
					t.Fatalf("field %q = %s, want %s", key, got, texts[key])
				}
			}
		}
	})
}

func reparsed(t *rapid.T, raw []byte) *troupe.Payload {
	p, err := troupe.ParsePayload(raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return p
}

// drawValue draws a Go value as a decoder that keeps numbers would make it.
func drawValue(t *rapid.T, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.String().Draw(t, "string")
	case 1:
		return json.Number(fmt.Sprint(rapid.Int64().Draw(t, "int")))
	case 2:
		return rapid.Bool().Draw(t, "bool")
	case 3:
		return nil
	case 4:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			list = append(list, drawValue(t, depth-1))
		}
		return list
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		object[rapid.String().Draw(t, "key")] = drawValue(t, depth-1)
	}
	return object
}

func TestEncodeJSONDecodesEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawValue(t, 4)
		text := harness.Must(job.EncodeJSON(want))(t)
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		var got any
		if err := decoder.Decode(&got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", text, diff)
		}
		// Canonical text is a fixed point, also as raw JSON.
		if again, err := job.EncodeJSON(json.RawMessage(text)); err != nil || !bytes.Equal(again, text) {
			t.Fatalf("%s becomes %s, %v", text, again, err)
		}
	})
}

func TestFloatsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Float64().Draw(t, "float")
		text, err := job.EncodeJSON(want)
		var got float64
		if err != nil || json.Unmarshal(text, &got) != nil || got != want {
			t.Fatalf("%v becomes %s, %v", want, text, err)
		}
		if !bytes.ContainsRune(text, '.') {
			t.Fatalf("%s has no fraction: Ruby would read an integer", text)
		}
	})
}

func TestArgsRoundTripProperty(t *testing.T) {
	type everything struct {
		S string         `arg:"0"`
		I int64          `arg:"1"`
		U uint32         `arg:"2"`
		F float64        `arg:"3"`
		A any            `arg:"4"`
		M map[string]any `arg:"5,optional"`
		B bool           `arg:"6,optional"`
		R []string       `arg:"*"`
	}
	rapid.Check(t, func(t *rapid.T) {
		want := everything{
			S: rapid.String().Draw(t, "s"), I: rapid.Int64().Draw(t, "i"), U: rapid.Uint32().Draw(t, "u"),
			F: rapid.Float64().Draw(t, "f"), A: drawValue(t, 2), B: rapid.Bool().Draw(t, "b"),
		}
		if rapid.Bool().Draw(t, "map") {
			want.M = map[string]any{"k": drawValue(t, 1)}
		}
		for range rapid.IntRange(0, 3).Draw(t, "rest") {
			want.R = append(want.R, rapid.String().Draw(t, "r"))
		}
		raw := harness.Must(job.EncodeArgs(want))(t)
		var got everything
		if err := troupe.DecodeArgs(raw, &got); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", raw, diff)
		}
	})
}
