package queues

import (
	"maps"
	"slices"
	"testing"

	"github.com/troupehq/troupe/fetch"
)

func TestWhatIsPublished(t *testing.T) {
	for _, c := range []struct {
		q       fetch.Queues
		names   []string
		mode    string
		weights map[string]int
	}{
		{fetch.Strict{"b", "a", "b"}, []string{"b", "a"}, "strict", map[string]int{"a": 0, "b": 0}},
		{fetch.Weighted{"b": 3, "a": 0, "c": -1}, []string{"b", "a", "c"}, "weighted", map[string]int{"a": 1, "b": 3, "c": 1}},
		{fetch.Weighted{"b": 1, "a": 0}, []string{"a", "b"}, "random", map[string]int{"a": 1, "b": 1}},
		{fetch.WeightedList{{Queue: "b"}, {Queue: "a", Weight: 1}}, []string{"b", "a"}, "weighted", map[string]int{"a": 1, "b": 0}},
		{fetch.WeightedList{{Queue: "b", Weight: 1}, {Queue: "a", Weight: 1}}, []string{"b", "a"}, "random", map[string]int{"a": 1, "b": 1}},
		{fetch.WeightedList{{Queue: "b"}, {Queue: "a", Weight: -1}}, []string{"b", "a"}, "strict", map[string]int{"a": 0, "b": 0}},
		{fetch.WeightedList{{Queue: "b", Weight: 2}, {Queue: "a", Weight: 2}}, []string{"b", "a"}, "weighted", map[string]int{"a": 2, "b": 2}},
	} {
		if got := Names(c.q); !slices.Equal(got, c.names) {
			t.Errorf("%#v: names %q, expected %q", c.q, got, c.names)
		}
		if got := Mode(c.q); got != c.mode {
			t.Errorf("%#v: mode %q, expected %q", c.q, got, c.mode)
		}
		if got := Weights(c.q); !maps.Equal(got, c.weights) {
			t.Errorf("%#v: weights %v, expected %v", c.q, got, c.weights)
		}
	}
}
