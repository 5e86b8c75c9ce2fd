// Package queues tells of an order of queues what the heartbeat publishes. It is a package of its own
// since package beat, which those use who only look, must not import package fetch.
package queues

import "github.com/troupehq/troupe/fetch"

// Names lists each queue once, in the order in which it is published.
func Names(q fetch.Queues) []string {
	list := q.List()
	names := make([]string, len(list))
	for i, entry := range list {
		names[i] = entry.Queue
	}
	return names
}

// Weights are the weights by queue; all 0 in strict mode.
func Weights(q fetch.Queues) map[string]int {
	weights := make(map[string]int)
	for _, entry := range q.List() {
		weights[entry.Queue] = entry.Weight
	}
	return weights
}

// Mode is "strict" when all weights are 0, "random" when all are 1, else "weighted".
func Mode(q fetch.Queues) string {
	low, high := 1, 0
	for _, entry := range q.List() {
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
