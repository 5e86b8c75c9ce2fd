package wirejson

import (
	"bytes"
	"slices"
	"testing"
)

func TestKeyOrderIsThatOfAPush(t *testing.T) {
	raw := []byte(RubyPayloads[0])
	i := 0
	for key := range mustParse(t, RubyPayloads[0]).Keys() {
		at := bytes.Index(raw, []byte(`"`+key+`":`))
		if i == len(keyOrder) || !keyOrder[i].at(raw, at) {
			t.Fatalf("%q is not recognized as key %d", key, i)
		}
		if k := keyOrder[i]; k.mark != markOf(key) || k.size != len(key)+3 {
			t.Errorf("%q: mark %d, size %d", key, k.mark, k.size)
		}
		i++
	}
}

// A key is recognized by each of its bytes and by no other.
func TestKeyWordsAreExact(t *testing.T) {
	raw := []byte(RubyPayloads[0])
	for n, key := range slices.Collect(mustParse(t, RubyPayloads[0]).Keys()) {
		k := &keyOrder[n]
		text := bytes.Clone(append([]byte(`"`+key+`":`), "1,\"xxxxxxxxxxxxx"...))
		for i := range text {
			for c := range 256 {
				changed := bytes.Clone(text)
				changed[i] = byte(c)
				if got, want := k.at(changed, 0), i >= k.size || changed[i] == text[i]; got != want {
					t.Fatalf("%q for %q: recognized: %v", changed, key, got)
				}
			}
		}
		for end := range len(raw) { // cut short: no panic
			k.at(raw[:end], max(0, end-k.size))
		}
	}
}

// Keys that come in another order, twice, in part or with others between.
func TestKeysOutOfOrder(t *testing.T) {
	for raw, want := range map[string]string{
		`{"queue":"q","retry":1,"class":"C","queue":"r"}`:                     `{"queue":"r","retry":1,"class":"C","x":0}`,
		`{"retry":1,"retry":2,"queue":"q"}`:                                   `{"retry":2,"queue":"q","x":0}`,
		`{"retry":1,"queue":"q","queue":"r","class":"C"}`:                     `{"retry":1,"queue":"r","class":"C","x":0}`,
		`{"ret\u0072y":1,"retry":2,"queue":"q","class":"C","\u0063lass":"D"}`: `{"ret\u0072y":2,"queue":"q","class":"D","x":0}`,
		`{"retry" :1,"bid":2, "queue": "q" ,"retrys":3,"class":"C"}`:          `{"retry":1,"bid":2,"queue":"q","retrys":3,"class":"C","x":0}`,
	} {
		p := mustParse(t, raw)
		p.SetInt("x", 0)
		if got := string(p.Bytes()); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}
