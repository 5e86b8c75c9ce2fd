package claimmodel

import "strings"

// Outcome is what a history has shown.
type Outcome struct {
	Wrong string         // "" if all was well
	Seen  map[string]int // how often something happened
	Steps int
}

// Kind is what else the jobs of a history are.
type Kind int

// The kinds.
const (
	Plain Kind = iota
	UnderLimits
	InBatches // but on Cluster, where there are none
)

// History plays one history. more reports whether there is one more step, and pick
// draws from 0 to n-1; what they return is all that a history depends on. trace is
// nil, or gets what happens.
func History(rules Without, kind Kind, trace *strings.Builder, pick func(n int) int, step func(do func()) bool) (o Outcome) {
	w := newWorld(pick, &rules, trace)
	f := &w.faults
	switch {
	case kind == UnderLimits: // what a job does besides is drawn without them
		f.limits, f.effects, f.twice, f.clone, f.breakOff = true, false, false, false, false
	case kind == InBatches && !w.cluster:
		f.batches, f.twice, f.clone, f.breakOff, f.thin, w.big = true, false, false, false, false, ""
		for _, o := range w.owners {
			o.thin = false
		}
	}
	for w.wrong == "" && step(w.step) {
		o.Steps++
	}
	if w.wrong == "" {
		w.pick = func(int) int { return 0 }
		w.settle()
	}
	o.Wrong, o.Seen = w.wrong, w.seen
	return o
}
