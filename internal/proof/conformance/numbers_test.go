package conformance

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
)

// sameJSON reports whether two texts of JSON are equal to Ruby: integers by their
// value, however long; other numbers as floats; the order of keys does not count.
func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	return sameValue(parsed(t, a), parsed(t, b))
}

func parsed(t testing.TB, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(a, b)
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameValue(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, v := range a {
			if w, there := b[key]; !there || !sameValue(v, w) {
				return false
			}
		}
		return true
	}
	return a == b
}

func sameNumber(a, b json.Number) bool {
	float := func(n json.Number) bool { return strings.ContainsAny(n.String(), ".eE") }
	if float(a) != float(b) {
		return false
	}
	if float(a) {
		x, _ := a.Float64()
		y, _ := b.Float64()
		return x == y
	}
	x, _ := new(big.Int).SetString(a.String(), 10)
	y, _ := new(big.Int).SetString(b.String(), 10)
	return x.Cmp(y) == 0
}
