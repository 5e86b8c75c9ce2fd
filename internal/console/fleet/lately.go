package fleet

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/tree"
)

// Lately is what the flight recorder tells of an actor within the last minute, and whether it is as
// it should be now.
type Lately struct {
	Recent  int    `json:"restarts_1m"`
	Why     string `json:"why,omitempty"` // what happened, in words
	Trouble bool   `json:"trouble"`
}

// TreeLately is Lately of each actor of a tree, by path. Records are those of its process.
func TreeLately(tree tree.Tree, records []flight.Record) map[string]*Lately {
	all := map[string]*Lately{}
	for _, n := range tree {
		n.Restarts, n.LastFailure = 0, "" // of long ago they are no trouble
		all[n.Path] = &Lately{Trouble: Troubled(n)}
	}
	now := time.Now()
	for _, rec := range Within(records, flight.Restarted, now, time.Minute) {
		if a := all[rec.Actor]; a != nil {
			if a.Recent++; a.Why == "" {
				a.Trouble, a.Why = true, whyRestarted(rec, records)
			}
		}
	}
	for _, rec := range Within(records, flight.Escalated, now, time.Minute) {
		at := rec.Actor
		for a := all[at]; a != nil; a = all[at] {
			a.Trouble = true
			if at == rec.Actor {
				a.Why = "gave up and escalated: " + rec.Text
			} else if !strings.Contains(a.Why, "escalated") {
				a.Why = strings.TrimSuffix("a failure of "+rec.Actor+" has escalated to it; "+a.Why, "; ")
			}
			at = parentOf(at)
		}
	}
	return all
}

// parentOf is the path of the supervisor of an actor; "" for the first one.
func parentOf(actor string) string { return strings.TrimPrefix(path.Dir(actor), ".") }

// whyRestarted tells the cause of a restart, and whose strategy it was.
func whyRestarted(restart flight.Record, records []flight.Record) string {
	parent := parentOf(restart.Actor)
	by := "the strategy of " + cmp.Or(parent, "the daemon")
	for _, rec := range slices.Backward(records) {
		switch {
		case rec.At.After(restart.At):
		case rec.Actor == restart.Actor && rec.Kind == flight.Crashed:
			return "crashed: " + rec.Text + "; restarted by " + by
		case rec.Actor == restart.Actor && rec.Kind == flight.Restarted && rec.At.Before(restart.At):
			return "restarted by " + by
		case rec.Kind == flight.Crashed && restart.At.Sub(rec.At) < 10*time.Second && rec.Actor == parent:
			return "restarted with " + parent + ", which crashed: " + rec.Text
		}
	}
	return "restarted with others by " + by
}

// Within are the records of a kind that are not older than a time, the newest first.
func Within(records []flight.Record, kind string, now time.Time, age time.Duration) (some []flight.Record) {
	for _, rec := range slices.Backward(records) {
		if rec.Kind == kind && now.Sub(rec.At) <= age {
			some = append(some, rec)
		}
	}
	return some
}
