package show

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/troupehq/troupe/internal/job"
)

// LimitMetrics are the jobs of this process that are under one limit of its configuration.
type LimitMetrics struct {
	Limit   string // "" for the others
	Running int    // jobs
	Held    uint64 // times that a job found no room
}

// maxLimits is how many limits the metrics have at most, with the one for all others.
const maxLimits = 50

// Holds counts jobs that found no room, by limit. All methods are safe for concurrent use.
type Holds struct {
	names []string
	held  []atomic.Uint64 // the last one is of all others
}

// NewHolds returns counters for the first of these limits, as people write them and in their order, and for all others.
func NewHolds(names []string) *Holds {
	names = names[:min(len(names), maxLimits-1)]
	return &Holds{names: names, held: make([]atomic.Uint64, len(names)+1)}
}

// Note counts a job that a rule holds.
func (h *Holds) Note(rule string) { h.held[h.at(rule)].Add(1) }

// at is the number of the limit of a rule.
func (h *Holds) at(rule string) int {
	name, _, _ := strings.Cut(rule, ":")
	if i := slices.Index(h.names, job.NameOfRule(name)); i >= 0 {
		return i
	}
	return len(h.names)
}

// Of are the counts of now; running are the rules of each job that runs. Without limits there are none.
func (h *Holds) Of(running [][]string) []LimitMetrics {
	if len(h.names) == 0 {
		return nil
	}
	all := make([]LimitMetrics, len(h.held))
	for i := range all {
		if i < len(h.names) {
			all[i].Limit = h.names[i]
		}
		all[i].Held = h.held[i].Load()
	}
	for _, rules := range running {
		for _, rule := range rules {
			all[h.at(rule)].Running++
		}
	}
	return all
}
