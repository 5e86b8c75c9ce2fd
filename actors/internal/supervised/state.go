package supervised

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/words"
)

// State is that of an actor.
type State string

// The states; package actors tells what they mean.
const (
	Starting   State = "starting"
	Running    State = "running"
	Held       State = "held"
	Suspended  State = "suspended"
	Crashed    State = "crashed"
	Restarting State = "restarting"
	Stopping   State = "stopping"
	Stopped    State = "stopped"
)

// Row is what is known of one actor.
type Row struct {
	Path, Role, Capsule string
	State               State
	Note                string // more about the state, in words
	Restarts, Failures  int
	LastFailure         string
	Depth               int           // user messages that wait
	For                 time.Duration // in this state
}

// Snapshot lists all actors, parents before children.
func (s *System) Snapshot(now time.Time) []Row {
	var out []Row
	for _, c := range s.all() {
		c.mu.Lock()
		r := Row{Path: c.path, Role: c.role, Capsule: c.capsule, Restarts: c.restarts, Failures: c.failures, For: now.Sub(c.since)}
		if c.lastFailure != nil {
			r.LastFailure = words.Head(c.lastFailure.Error()) // the tree goes to Redis with each beat
		}
		if c.depth != nil {
			r.Depth = max(0, c.depth())
		}
		r.State, r.Note = c.shownLocked(now)
		c.mu.Unlock()
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Row) int { return comparePaths(a.Path, b.Path) })
	return out
}

// shownLocked is the state as it is shownLocked, with a note.
func (c *node) shownLocked(now time.Time) (State, string) {
	switch wait := c.until.Sub(now); {
	case wait > 0 && (c.state == Crashed || c.state == Stopped || c.state == Running):
		return Restarting, "in " + words.Few(wait)
	case !c.stuck.IsZero():
		return c.state, fmt.Sprintf("(%s has not decided for %s)", c.stuckIn, words.Few(now.Sub(c.stuck)))
	case c.state != Running:
	case c.box != nil && c.box.gated.Load():
		return Held, ""
	case c.box != nil && c.box.suspended.Load():
		return Suspended, ""
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
