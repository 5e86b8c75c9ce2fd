package fetch

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"

	"github.com/troupehq/troupe/internal/test/harness"
)

func TestQueues(t *testing.T) {
	for _, c := range []struct {
		q    Queues
		list WeightedList
	}{
		{Strict{"b", "a", "b"}, WeightedList{{"b", 0}, {"a", 0}}},
		{Weighted{"b": 3, "a": 0, "c": -1}, WeightedList{{"b", 3}, {"a", 1}, {"c", 1}}},
		{WeightedList{{"often", 2}, {"seldom", 1}, {"other", 0}}, WeightedList{{"often", 2}, {"seldom", 1}, {"other", 0}}},
		{WeightedList{{"b", 0}, {"a", -1}}, WeightedList{{"b", 0}, {"a", 0}}},
		{WeightedList{{"b", 3}, {"a", 0}, {"b", 2}}, WeightedList{{"b", 2}, {"a", 0}}},
		{WeightedList{{"b", 3}, {"b", -1}}, WeightedList{{"b", 0}}},
	} {
		if got := c.q.List(); !slices.Equal(got, c.list) {
			t.Errorf("%#v: %v, expected %v", c.q, got, c.list)
		}
		if err := validate(c.q); err != nil {
			t.Errorf("%#v: %v", c.q, err)
		}
	}
	for want, q := range map[string]Queues{
		"queues: nil, expected at least one queue":         nil,
		"queues: none listed, expected at least one queue": WeightedList{},
		"queues: name 2 of 2 is empty":                     Strict{"a", ""},
		`queues: name "\xff" is not UTF-8`:                 Weighted{"\xff": 1},
	} {
		if err := validate(q); err == nil || err.Error() != want {
			t.Errorf("%#v: %v, expected %s", q, err, want)
		}
	}
}

// Wants lists every queue once; where chance decides, its numbers add up to n.
func TestWantsAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	check := func(weights []uint8, n uint8) bool {
		w := Weighted{}
		for i, weight := range weights {
			w[fmt.Sprint(i)] = int(weight)
		}
		if len(w) == 0 {
			w["only"] = 0
		}
		sum, names := 0, []string(nil)
		for _, want := range w.Wants(int(n), r) {
			sum += want.N
			names = append(names, want.Queue)
		}
		slices.Sort(names)
		return sum == int(n) && slices.Equal(names, slices.Sorted(maps.Keys(w)))
	}
	harness.Check(t, quick.Check(check, nil))
	harness.EqualList(t, "strict wants", (Strict{"b", "a"}).Wants(7, nil), []Want{{"b", 7}, {"a", 7}})
}

// What a dry queue leaves goes to the others by their weights: as in Sidekiq,
// where a fetch passes on to the next name of the shuffled list.
func TestSpillIsWeighted(t *testing.T) {
	for _, q := range []Queues{
		Weighted{"a": 5, "b": 3, "c": 1},
		WeightedList{{"c", 0}, {"b", 2}, {"a", 5}, {"b", 0}}, // b 3 times and c once, as in Sidekiq
	} {
		r := rand.New(rand.NewPCG(3, 4))
		wants := planner(q)
		const rounds = 20000
		counts := map[string]float64{}
		for range rounds {
			for _, want := range wants(1, r) {
				if want.Queue != "a" {
					counts[want.Queue]++
					break
				}
			}
		}
		chi2 := 0.0
		for name, share := range map[string]float64{"b": 0.75, "c": 0.25} {
			d := counts[name] - share*rounds
			chi2 += d * d / (share * rounds)
		}
		if chi2 > 19.5 { // one degree of freedom: once in 100,000
			t.Errorf("%#v, without a: %v, expected 3 to 1: chi-square %.1f", q, counts, chi2)
		}
	}
	harness.EqualList(t, "a list without weights wants", (WeightedList{{"b", 0}, {"a", 0}}).Wants(7, nil), []Want{{"b", 7}, {"a", 7}})
}

func BenchmarkWants(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	wants := planner(Weighted{"a": 5, "b": 3, "c": 1})
	b.ReportAllocs()
	for b.Loop() {
		wants(100, r)
	}
}

func TestWhatIsPublished(t *testing.T) {
	for _, c := range []struct {
		q       Queues
		names   []string
		mode    string
		weights map[string]int
	}{
		{Strict{"b", "a", "b"}, []string{"b", "a"}, "strict", map[string]int{"a": 0, "b": 0}},
		{Weighted{"b": 3, "a": 0, "c": -1}, []string{"b", "a", "c"}, "weighted", map[string]int{"a": 1, "b": 3, "c": 1}},
		{Weighted{"b": 1, "a": 0}, []string{"a", "b"}, "random", map[string]int{"a": 1, "b": 1}},
		{WeightedList{{Queue: "b"}, {Queue: "a", Weight: 1}}, []string{"b", "a"}, "weighted", map[string]int{"a": 1, "b": 0}},
		{WeightedList{{Queue: "b", Weight: 1}, {Queue: "a", Weight: 1}}, []string{"b", "a"}, "random", map[string]int{"a": 1, "b": 1}},
		{WeightedList{{Queue: "b"}, {Queue: "a", Weight: -1}}, []string{"b", "a"}, "strict", map[string]int{"a": 0, "b": 0}},
		{WeightedList{{Queue: "b", Weight: 2}, {Queue: "a", Weight: 2}}, []string{"b", "a"}, "weighted", map[string]int{"a": 2, "b": 2}},
	} {
		if got := c.q.List().Names(); !slices.Equal(got, c.names) {
			t.Errorf("%#v: names %q, expected %q", c.q, got, c.names)
		}
		if got := c.q.List().Mode(); got != c.mode {
			t.Errorf("%#v: mode %q, expected %q", c.q, got, c.mode)
		}
		if got := c.q.List().Weights(); !maps.Equal(got, c.weights) {
			t.Errorf("%#v: weights %v, expected %v", c.q, got, c.weights)
		}
	}
}
