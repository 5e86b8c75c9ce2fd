package claimmodel

import "strings"

// Outcome is what a history has shown.
type Outcome struct {
	Wrong string         // "" if all was well
	Seen  map[string]int // how often something happened
	Steps int
}

// History plays one history. more reports whether there is one more step, and pick
// draws from 0 to n-1; with limits all jobs are under one; what they return is all that a history depends on. trace is
// nil, or gets what happens.
func History(rules Without, limits bool, trace *strings.Builder, pick func(n int) int, step func(do func()) bool) (o Outcome) {
	w := newWorld(pick, &rules, trace)
	if limits { // what a job does besides is drawn without them
		f := &w.faults
		f.limits, f.effects, f.twice, f.clone, f.breakOff = true, false, false, false, false
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
