package supervised

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/actors/internal/strategy"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/internal/words"
)

// Row is an actor in the tree. What its capsule knows of it is missing.
type Row struct {
	tree.Node
	Failures int
}

// Snapshot lists all actors, parents before children.
func (s *System) Snapshot(now time.Time) []Row {
	var out []Row
	for _, c := range s.all() {
		c.mu.Lock()
		r := Row{Node: tree.Node{Path: c.path, Role: c.role, Capsule: c.capsule, Restarts: c.restarts, For: now.Sub(c.since)}, Failures: c.failures}
		if c.lastFailure != nil {
			r.LastFailure = words.Head(c.lastFailure.Error()) // the tree goes to Redis with each beat
		}
		if c.depth != nil {
			r.Depth = max(0, c.depth())
		}
		r.State, r.Note = c.shownLocked(now)
		c.mu.Unlock()
		if own, ok := c.proxy.strategy.(*strategy.Strategy); ok {
			r.Budget = own.Budget()
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Row) int { return comparePaths(a.Path, b.Path) })
	return out
}

// shownLocked is the state as it is shown, with a note.
func (c *node) shownLocked(now time.Time) (tree.State, string) {
	switch wait := c.until.Sub(now); {
	case wait > 0 && (c.state == tree.StateCrashed || c.state == tree.StateStopped || c.state == tree.StateRunning):
		return tree.StateRestarting, "in " + words.Few(wait)
	case !c.stuck.IsZero():
		return c.state, fmt.Sprintf("(%s has not decided for %s)", c.stuckIn, words.Few(now.Sub(c.stuck)))
	case c.state != tree.StateRunning:
	case c.box != nil && c.box.gated.Load():
		return tree.StateHeld, ""
	case c.box != nil && c.box.suspended.Load():
		return tree.StateSuspended, ""
	}
	return c.state, ""
}

// SplitPath splits a path into its supervisor's and its own name.
func SplitPath(path string) (parent, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// comparePaths sorts parents first and numbers by value.
func comparePaths(a, b string) int {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	for i := 0; i < min(len(as), len(bs)); i++ {
		if as[i] == bs[i] {
			continue
		}
		an, ai := splitNumber(as[i])
		bn, bi := splitNumber(bs[i])
		if an != bn {
			return cmp.Compare(an, bn)
		}
		return cmp.Compare(ai, bi)
	}
	return cmp.Compare(len(as), len(bs))
}

func splitNumber(s string) (string, int) {
	i := strings.LastIndexByte(s, '-')
	if i < 0 {
		return s, -1
	}
	n, err := strconv.Atoi(s[i+1:])
	if err != nil {
		return s, -1
	}
	return s[:i], n
}
