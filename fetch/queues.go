package fetch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"unicode/utf8"
)

// Queues says which queues a capsule takes from and in which proportion.
// Strict, Weighted and Random are Sidekiq's three modes. An implementation is
// not changed after it was given away; its methods may be called concurrently.
type Queues interface {
	// Names lists each queue once, in the order in which the heartbeat publishes
	// them: as listed, or for a map by weight, the heaviest first, then by name.
	Names() []string

	// Mode is "strict", "weighted" or "random", as the heartbeat publishes it.
	Mode() string

	// Weights is the weight of each queue as the heartbeat publishes it; all 0 in
	// strict mode.
	Weights() map[string]int

	// Wants divides n free places among the queues. It lists every queue once:
	// first each Want.N is met as far as its queue has jobs, then the places
	// still free go to the queues that have more, in the order of the slice.
	Wants(n int, r *rand.Rand) []Want
}

// Want is how many jobs to take from one queue in the first pass.
type Want struct {
	Queue string
	N     int
}

// Strict empties each queue before it looks at the next; duplicates are ignored.
type Strict []string

// Weighted draws the queue of each job by chance: a queue's share is its weight
// over the sum of the weights of those that have jobs. A weight below 1 counts 1.
type Weighted map[string]int

// WeightedList is Weighted with an order and with weights as a Sidekiq file has
// them. The order does not matter to the draw, only to those who look at the
// process. A queue may be listed more than once.
type WeightedList []QueueWeight

// QueueWeight is one entry of a WeightedList. A weight below 1 counts 1 in the
// draw and is published as it is; if all are 0 the list is strict, as in Sidekiq.
type QueueWeight struct {
	Queue  string
	Weight int
}

// Random gives every queue the same chance; duplicates are ignored.
type Random []string

// Names is the listed order without duplicates.
func (s Strict) Names() []string { return unique(s) }

// Mode is "strict".
func (s Strict) Mode() string { return "strict" }

// Weights is 0 for each queue, Sidekiq's sign of strict order.
func (s Strict) Weights() map[string]int { return weigh(s, 0) }

// Wants wants n from each queue, in listed order.
func (s Strict) Wants(n int, _ *rand.Rand) []Want {
	return all(s.Names(), n)
}

// all wants n from each queue.
func all(names []string, n int) []Want {
	wants := make([]Want, len(names))
	for i, name := range names {
		wants[i] = Want{name, n}
	}
	return wants
}

// Names is by weight, the heaviest first, then by name: a map has no order.
func (w Weighted) Names() []string {
	return slices.SortedFunc(maps.Keys(w), func(a, b string) int {
		return cmp.Or(cmp.Compare(max(w[b], 1), max(w[a], 1)), cmp.Compare(a, b))
	})
}

// Mode is "random" when all weights are the same 1, as Sidekiq calls it.
func (w Weighted) Mode() string {
	for _, n := range w {
		if n > 1 {
			return "weighted"
		}
	}
	return "random"
}

// Weights is what was given, at least 1.
func (w Weighted) Weights() map[string]int {
	weights := make(map[string]int, len(w))
	for name, n := range w {
		weights[name] = max(n, 1)
	}
	return weights
}

// Wants draws n times; see Queues.
func (w Weighted) Wants(n int, r *rand.Rand) []Want { return planner(w)(n, r) }

// Names is the listed order without duplicates.
func (l WeightedList) Names() []string {
	names := make([]string, len(l))
	for i, q := range l {
		names[i] = q.Queue
	}
	return unique(names)
}

// Mode is "strict" when all weights are 0, "random" when all are 1.
func (l WeightedList) Mode() string {
	weights := l.Weights()
	all := func(weight int) bool {
		for _, w := range weights {
			if w != weight {
				return false
			}
		}
		return true
	}
	switch {
	case all(0):
		return "strict"
	case all(1):
		return "random"
	}
	return "weighted"
}

// Weights is what was given, at least 0; the last weight of a queue counts.
func (l WeightedList) Weights() map[string]int {
	weights := make(map[string]int, len(l))
	for _, q := range l {
		weights[q.Queue] = max(q.Weight, 0)
	}
	return weights
}

// Wants draws n times, or is that of Strict; see Queues. The weights of a queue
// that is listed more than once add up.
func (l WeightedList) Wants(n int, r *rand.Rand) []Want { return planner(l)(n, r) }

// draws is the weight of each queue in the draw.
func (l WeightedList) draws() map[string]int {
	weights := make(map[string]int, len(l))
	for _, q := range l {
		weights[q.Queue] += max(q.Weight, 1)
	}
	return weights
}

// Names is the listed order without duplicates.
func (q Random) Names() []string { return unique(q) }

// Mode is "random".
func (q Random) Mode() string { return "random" }

// Weights is 1 for each queue.
func (q Random) Weights() map[string]int { return weigh(q, 1) }

// Wants draws n times; see Queues.
func (q Random) Wants(n int, r *rand.Rand) []Want { return planner(q)(n, r) }

// Validate tells what is wrong with q: nil, no queue, or a name that is empty
// or not UTF-8. The error names the offending queue.
func Validate(q Queues) error {
	if q == nil {
		return errors.New("queues: nil, expected at least one queue")
	}
	names := q.Names()
	if len(names) == 0 {
		return errors.New("queues: none listed, expected at least one queue")
	}
	for i, name := range names {
		if name == "" {
			return fmt.Errorf("queues: name %d of %d is empty", i+1, len(names))
		}
		if !utf8.ValidString(name) {
			return fmt.Errorf("queues: name %q is not UTF-8", name)
		}
	}
	return nil
}

// planner returns q.Wants, computed from tables made once for the modes that
// draw by chance: a fetcher asks at every call.
func planner(q Queues) func(n int, r *rand.Rand) []Want {
	switch q := q.(type) {
	case Strict:
		names := q.Names()
		return func(n int, _ *rand.Rand) []Want { return all(names, n) }
	case Weighted, Random:
		return newWheel(q.Names(), q.Weights()).wants
	case WeightedList:
		if q.Mode() == "strict" {
			return planner(Strict(q.Names()))
		}
		return newWheel(q.Names(), q.draws()).wants
	}
	return q.Wants
}

// wheel draws queue names in proportion to their weights; immutable.
type wheel struct {
	names   []string
	weights []int
	total   int
}

func newWheel(names []string, weights map[string]int) *wheel {
	w := &wheel{names: names}
	for _, name := range names {
		w.weights = append(w.weights, weights[name])
		w.total += weights[name]
	}
	return w
}

// wants makes n independent draws, so that a batch has the same shares as n
// single fetches, and puts the queues into a random weighted order for what a
// dry queue leaves over: Sidekiq's shuffle, made once a batch.
func (w *wheel) wants(n int, r *rand.Rand) []Want {
	wants := make([]Want, len(w.names))
	for i, name := range w.names {
		wants[i].Queue = name
	}
	if len(wants) < 2 {
		for i := range wants {
			wants[i].N = n
		}
		return wants
	}
	for range n {
		wants[draw(w.weights, w.total, r)].N++
	}
	weights, total := slices.Clone(w.weights), w.total
	for i := range wants[:len(wants)-1] {
		j := i + draw(weights[i:], total, r)
		wants[i], wants[j] = wants[j], wants[i]
		weights[i], weights[j] = weights[j], weights[i]
		total -= weights[i]
	}
	return wants
}

// draw picks an index with probability weights[i]/total.
func draw(weights []int, total int, r *rand.Rand) int {
	x := r.IntN(total)
	for i, weight := range weights {
		if x -= weight; x < 0 {
			return i
		}
	}
	return len(weights) - 1
}

func unique(names []string) []string {
	out := make([]string, 0, len(names))
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}

func weigh(names []string, weight int) map[string]int {
	weights := make(map[string]int, len(names))
	for _, name := range names {
		weights[name] = weight
	}
	return weights
}
