package fetch

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"github.com/troupehq/troupe/internal/limits"
)

// Queues says which queues a capsule takes from and in which proportion. Strict,
// Weighted and WeightedList are Sidekiq's modes. An implementation is not changed
// after it was given away; its methods may be called concurrently.
type Queues interface {
	// List lists each queue once, with its weight, as the heartbeat publishes them.
	// Weights that are all 0 are published as mode "strict", weights that are all 1
	// as "random", others as "weighted".
	List() WeightedList

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
// over the sum of the weights of those that have jobs. A weight below 1 counts 1;
// with the same weight for all it is Sidekiq's random mode.
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

// List is the listed order, with weight 0: Sidekiq's sign of strict order.
func (s Strict) List() WeightedList {
	l := make(WeightedList, len(s))
	for i, name := range s {
		l[i].Queue = name
	}
	return l.List()
}

// Wants wants n from each queue, in listed order.
func (s Strict) Wants(n int, r *rand.Rand) []Want { return planner(s)(n, r) }

// List is by weight, the heaviest first, then by name: a map has no order.
func (w Weighted) List() WeightedList {
	l := make(WeightedList, 0, len(w))
	for name, weight := range w {
		l = append(l, QueueWeight{name, max(weight, 1)})
	}
	slices.SortFunc(l, func(a, b QueueWeight) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Queue, b.Queue))
	})
	return l
}

// Wants draws n times; see Queues.
func (w Weighted) Wants(n int, r *rand.Rand) []Want { return planner(w)(n, r) }

// List is the listed order; of a queue that is listed more than once the first
// place counts, and the last weight. A weight is at least 0.
func (l WeightedList) List() WeightedList {
	once := make(WeightedList, 0, len(l))
	at := make(map[string]int, len(l))
	for _, q := range l {
		i, listed := at[q.Queue]
		if !listed {
			i, once = len(once), append(once, q)
			at[q.Queue] = i
		}
		once[i].Weight = max(q.Weight, 0)
	}
	return once
}

// Wants draws n times, or is that of Strict; see Queues. The weights of a queue
// that is listed more than once add up.
func (l WeightedList) Wants(n int, r *rand.Rand) []Want { return planner(l)(n, r) }

// Names lists each queue once, in the order in which it is published.
func (l WeightedList) Names() []string {
	list := l.List()
	names := make([]string, len(list))
	for i, entry := range list {
		names[i] = entry.Queue
	}
	return names
}

// Weights are the weights by queue, as they are published.
func (l WeightedList) Weights() map[string]int {
	weights := make(map[string]int)
	for _, entry := range l.List() {
		weights[entry.Queue] = entry.Weight
	}
	return weights
}

// Mode is how the list is published, see Queues: "strict", "random" or "weighted".
func (l WeightedList) Mode() string {
	low, high := 1, 0
	for _, entry := range l.List() {
		low, high = min(low, entry.Weight), max(high, entry.Weight)
	}
	switch {
	case high == 0:
		return "strict"
	case low == 1 && high == 1:
		return "random"
	}
	return "weighted"
}

// validate tells what is wrong with q.
func validate(q Queues) error {
	if q == nil {
		return errors.New("queues: nil, expected at least one queue")
	}
	return limits.Queues(q.List().Names())
}

// planner returns q.Wants, computed from tables made once: a fetcher asks at every call.
func planner(q Queues) func(n int, r *rand.Rand) []Want {
	var l WeightedList
	switch q := q.(type) { // by their types alone: one that embeds them may have Wants of its own
	case Strict, Weighted:
		l = q.List()
	case WeightedList:
		l = q
	default:
		return q.Wants
	}
	draws := make(map[string]int, len(l))
	for _, entry := range l {
		draws[entry.Queue] += max(entry.Weight, 1)
	}
	w := &wheel{strict: true}
	for _, entry := range l.List() {
		n := draws[entry.Queue]
		w.names, w.weights, w.total = append(w.names, entry.Queue), append(w.weights, n), w.total+n
		w.strict = w.strict && entry.Weight == 0
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
// drained queue leaves over: Sidekiq's shuffle, made once a batch.
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

// faultyQuiet is how long the log keeps quiet about a queue that was reported.
const faultyQuiet = time.Minute

// faultyQueues remembers queues whose key has the wrong type. They must neither
// stop the other queues nor fill the log.
type faultyQueues struct {
	log   zerolog.Logger
	until map[string]time.Time // when the log speaks of a queue again
}

// report logs the first of the reports of a queue in a while. The lock of the fetcher is held.
func (s *faultyQueues) report(queue, problem string) {
	now := time.Now()
	if !now.After(s.until[queue]) {
		return
	}
	if s.until == nil {
		s.until = make(map[string]time.Time)
	}
	s.until[queue] = now.Add(faultyQuiet)
	s.log.Error().Str("queue", queue).Str("problem", problem).Msg("queue cannot be served, going on without it")
}
