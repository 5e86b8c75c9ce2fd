package keys

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// This file is about what the indexes and registries of fetchers say.

const (
	ClaimSize = 64             // most jobs of a claim
	CloseTime = 24 * time.Hour // how long a list stays closed that may still get a job
)

// Registered is what the registry says of an owner.
type Registered struct {
	Layout int      `json:"v"`
	Queues []string `json:"queues"`
}

// IsWaiting tells whether a field of an index is that of a waiting list: w:QUEUE, w2:QUEUE and
// so on, one for each waiter of the queue. The others are numbers of claims.
func IsWaiting(field string) bool { return strings.HasPrefix(field, "w") }

// CompareFields sorts claims by number of their call, and waiting lists behind them.
func CompareFields(a, b string) int {
	wa, wb := IsWaiting(a), IsWaiting(b)
	switch {
	case wa != wb && wa:
		return 1
	case wa != wb:
		return -1
	case wa:
		return strings.Compare(a, b)
	}
	callA, nA, _ := strings.Cut(a, ".")
	callB, nB, _ := strings.Cut(b, ".")
	return cmp.Or(len(callA)-len(callB), strings.Compare(callA, callB), len(nA)-len(nB), strings.Compare(nA, nB))
}

// ListName is what the index calls the queue of a list.
func ListName(queue string, suspect bool) string {
	if suspect {
		return queue + SuspectsSuffix
	}
	return queue
}

// SplitName takes apart what an index calls a queue.
func SplitName(name string) (queue string, suspect bool) {
	return strings.CutSuffix(name, SuspectsSuffix)
}

// QueueOfList is the queue of a list, as the index says of it; suspects of a queue may have the
// name of another one.
func QueueOfList(value string, queues []string) (queue string, suspect bool) {
	name := value[:max(0, strings.LastIndexByte(value, ' '))]
	if slices.Contains(queues, name) {
		return name, false
	}
	return SplitName(name)
}

// Fields are those of an index, as HGETALL returns them in a script.
func Fields(flat []string) map[string]string {
	all := make(map[string]string, len(flat)/2)
	for pair := range slices.Chunk(flat, 2) {
		all[pair[0]] = pair[1]
	}
	return all
}
