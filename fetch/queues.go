package fetch

import (
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"github.com/troupehq/troupe/internal/limits"
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
func (s Strict) Names() []string { return s.list().Names() }

// Mode is "strict".
func (s Strict) Mode() string { return "strict" }

// Weights is 0 for each queue, Sidekiq's sign of strict order.
func (s Strict) Weights() map[string]int { return s.list().Weights() }

// Wants wants n from each queue, in listed order.
func (s Strict) Wants(n int, r *rand.Rand) []Want { return planner(s)(n, r) }

func (s Strict) list() WeightedList { return evenly(s, 0) }

// Names is by weight, the heaviest first, then by name: a map has no order.
func (w Weighted) Names() []string { return w.list().Names() }

// Mode is "random" when all weights are the same 1, as Sidekiq calls it.
func (w Weighted) Mode() string { return w.list().Mode() }

// Weights is what was given, at least 1.
func (w Weighted) Weights() map[string]int { return w.list().Weights() }

// Wants draws n times; see Queues.
func (w Weighted) Wants(n int, r *rand.Rand) []Want { return planner(w)(n, r) }

func (w Weighted) list() WeightedList {
	l := make(WeightedList, 0, len(w))
	for name, weight := range w {
		l = append(l, QueueWeight{name, max(weight, 1)})
	}
	slices.SortFunc(l, func(a, b QueueWeight) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Queue, b.Queue))
	})
	return l
}

// Names is the listed order without duplicates.
func (l WeightedList) Names() []string {
	names := make([]string, 0, len(l))
	seen := make(map[string]bool, len(l))
	for _, q := range l {
		if !seen[q.Queue] {
			seen[q.Queue] = true
			names = append(names, q.Queue)
		}
	}
	return names
}

// Mode is "strict" when all weights are 0, "random" when all are 1.
func (l WeightedList) Mode() string {
	weights := slices.Sorted(maps.Values(l.Weights()))
	switch {
	case len(weights) == 0 || weights[len(weights)-1] == 0:
		return "strict"
	case weights[0] == 1 && weights[len(weights)-1] == 1:
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

// Names is the listed order without duplicates.
func (q Random) Names() []string { return q.list().Names() }

// Mode is "random".
func (q Random) Mode() string { return "random" }

// Weights is 1 for each queue.
func (q Random) Weights() map[string]int { return q.list().Weights() }

// Wants draws n times; see Queues.
func (q Random) Wants(n int, r *rand.Rand) []Want { return planner(q)(n, r) }

func (q Random) list() WeightedList {
	names := evenly(q, 1).Names() // a duplicate would count twice
	return evenly(names, 1)
}

func evenly(names []string, weight int) WeightedList {
	l := make(WeightedList, len(names))
	for i, name := range names {
		l[i] = QueueWeight{name, weight}
	}
	return l
}

// validate tells what is wrong with q.
func validate(q Queues) error {
	if q == nil {
		return errors.New("queues: nil, expected at least one queue")
	}
	return limits.Queues(q.Names())
}

// planner returns q.Wants, computed from tables made once: a fetcher asks at every call.
func planner(q Queues) func(n int, r *rand.Rand) []Want {
	var l WeightedList
	switch q := q.(type) { // by their types alone: one that embeds them may have Wants of its own
	case Strict:
		l = q.list()
	case Weighted:
		l = q.list()
	case WeightedList:
		l = q
	case Random:
		l = q.list()
	default:
		return q.Wants
	}
	draws := make(map[string]int, len(l))
	for _, entry := range l {
		draws[entry.Queue] += max(entry.Weight, 1)
	}
	w := &wheel{names: l.Names(), strict: l.Mode() == "strict"}
	for _, name := range w.names {
		w.weights, w.total = append(w.weights, draws[name]), w.total+draws[name]
	}
	return w.wants
}

// wheel draws queue names in proportion to their weights; immutable.
type wheel struct {
	names   []string
	weights []int
	total   int
	strict  bool // no draw: each queue is wanted whole
}

// wants makes n independent draws, so that a batch has the same shares as n
// single fetches, and puts the queues into a random weighted order for what a
// dry queue leaves over: Sidekiq's shuffle, made once a batch.
func (w *wheel) wants(n int, r *rand.Rand) []Want {
	wants := make([]Want, len(w.names))
	whole := w.strict || len(wants) == 1
	for i, name := range w.names {
		wants[i].Queue = name
		if whole {
			wants[i].N = n
		}
	}
	if whole || len(wants) == 0 {
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

// sickQuiet is how long the log keeps quiet about a queue that was reported.
const sickQuiet = time.Minute

// sickQueues remembers queues whose key has the wrong type. They must neither
// stop the other queues nor fill the log.
type sickQueues struct {
	log   zerolog.Logger
	until map[string]time.Time // when the log speaks of a queue again
}

// report logs the first of the reports of a queue in a while. The lock of the fetcher is held.
func (s *sickQueues) report(queue, problem string) {
	now := time.Now()
	if !now.After(s.until[queue]) {
		return
	}
	if s.until == nil {
		s.until = make(map[string]time.Time)
	}
	s.until[queue] = now.Add(sickQuiet)
	s.log.Error().Str("queue", queue).Str("problem", problem).Msg("queue cannot be served, going on without it")
}
