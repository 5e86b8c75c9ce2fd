package actors

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe/internal/cut"
)

// State of an actor in the tree.
type State string

// The states of an actor. A running processor shows StateBusy or StateIdle.
const (
	StateStarting   State = "starting"
	StateRunning    State = "running"
	StateIdle       State = "idle"
	StateBusy       State = "busy"
	StateHeld       State = "held"       // runs, but messages are kept from it: see Daemon.Hold
	StateSuspended  State = "suspended"  // runs, but takes no messages: see Daemon.Suspend
	StateCrashed    State = "crashed"    // suspended until its strategy has decided
	StateRestarting State = "restarting" // or waits for that; the note tells how long
	StateStopping   State = "stopping"
	StateStopped    State = "stopped"
)

// Node is one actor of the live tree.
type Node struct {
	Path        string        `json:"path"` // launcher/default/processor-3
	Role        string        `json:"role"`
	Capsule     string        `json:"capsule,omitempty"`
	State       State         `json:"state"`
	Note        string        `json:"note,omitempty"` // more about the state, in words
	Restarts    int           `json:"restarts"`
	LastFailure string        `json:"last_failure,omitempty"`
	Depth       int           `json:"depth"`          // user messages waiting in its mailbox
	Job         *JobRef       `json:"job,omitempty"`  // that a processor runs
	Deaf        []Deaf        `json:"deaf,omitempty"` // jobs of a manager's capsule that do not end; at most 20
	For         time.Duration `json:"for_ns"`         // time in this state
}

// JobRef names a job.
type JobRef struct {
	JID     string    `json:"jid"`
	Class   string    `json:"class"`
	Queue   string    `json:"queue"`
	Started time.Time `json:"started,omitzero"`
}

// Tree is a snapshot of the supervision tree, parents before children.
type Tree []Node

// Find returns the node at path.
func (t Tree) Find(path string) (Node, bool) {
	for _, n := range t {
		if n.Path == path {
			return n, true
		}
	}
	return Node{}, false
}

// Restarts of the actor at path; 0 if there is none.
func (t Tree) Restarts(path string) int {
	n, _ := t.Find(path)
	return n.Restarts
}

// String draws the tree, one actor a line.
func (t Tree) String() string {
	branches := t.branches()
	var b strings.Builder
	for i, n := range t {
		b.WriteString(branches[i])
		name := n.Path[strings.LastIndexByte(n.Path, '/')+1:]
		fmt.Fprintf(&b, "%-*s %s", max(1, 24-3*strings.Count(n.Path, "/")), name, n.State)
		if n.Note != "" {
			fmt.Fprintf(&b, " %s", n.Note)
		}
		if n.Job != nil {
			fmt.Fprintf(&b, " %s %s", cut.Text(n.Job.Class), cut.Text(n.Job.JID))
			if !n.Job.Started.IsZero() {
				fmt.Fprintf(&b, " %s", time.Since(n.Job.Started).Round(time.Millisecond))
			}
		}
		if n.Restarts > 0 {
			fmt.Fprintf(&b, "  restarts %d", n.Restarts)
		}
		if n.LastFailure != "" {
			fmt.Fprintf(&b, ": %s", firstLine(n.LastFailure, 100))
		}
		if n.Depth > 0 {
			fmt.Fprintf(&b, "  mailbox %d", n.Depth)
		}
		for _, j := range n.Deaf {
			fmt.Fprintf(&b, "  deaf: %s %s for %s", cut.Text(j.Class), cut.Text(j.JID), brief(time.Since(j.Since)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// branches are the line drawings before each name. From the last row up, so that
// it is known whether a row, or an ancestor of it, has a sibling below.
func (t Tree) branches() []string {
	out := make([]string, len(t))
	var below []bool // per level: there is a sibling further down
	for i := len(t) - 1; i >= 0; i-- {
		level := strings.Count(t[i].Path, "/")
		for len(below) <= level {
			below = append(below, false)
		}
		var b strings.Builder
		for l := 1; l <= level; l++ {
			switch {
			case l < level && below[l]:
				b.WriteString("│  ")
			case l < level:
				b.WriteString("   ")
			case below[l]:
				b.WriteString("├─ ")
			default:
				b.WriteString("└─ ")
			}
		}
		out[i] = b.String()
		below[level] = true
		clear(below[level+1:])
	}
	return out
}

func firstLine(s string, limit int) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}

// tree holds the cells by path. A name that is spawned again replaces its cell
// but keeps its restart count and its place.
type tree struct {
	mu    sync.Mutex
	cells map[string]*cell
	added uint64
}

// find returns the cell at path, nil if there is none.
func (t *tree) find(path string) *cell {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cells[path]
}

// disinherit notes that no child of the supervisor at path, which ends, gets a
// successor any more.
func (t *tree) disinherit(path string) {
	for _, c := range t.all() {
		if parent, _ := splitPath(c.path); parent == path {
			c.waits(time.Time{})
		}
	}
}

func (t *tree) add(c *cell) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.added++
	c.order = t.added
	if old := t.cells[c.path]; old != nil {
		c.order = old.order
		old.mu.Lock()
		c.restarts, c.failures = old.restarts+1, old.failures
		c.lastFailure, c.lastStack = old.lastFailure, old.lastStack
		old.mu.Unlock()
	}
	t.cells[c.path] = c
}

// box is the mailbox of the actor at path; nil if there is none (yet).
func (t *tree) box(path string) *mailbox {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.cells[path]; c != nil {
		return c.box
	}
	return nil
}

func (t *tree) all() []*cell {
	t.mu.Lock()
	defer t.mu.Unlock()
	cs := make([]*cell, 0, len(t.cells))
	for _, c := range t.cells {
		cs = append(cs, c)
	}
	return cs
}

func (t *tree) snapshot(now time.Time) Tree {
	var out Tree
	for _, c := range t.all() {
		c.mu.Lock()
		n := Node{
			Path: c.path, Role: c.role, Capsule: c.capsule, State: c.state,
			Restarts: c.restarts, For: now.Sub(c.since),
		}
		if c.lastFailure != nil {
			n.LastFailure = cut.Head(c.lastFailure.Error()) // the tree goes to Redis with each beat
		}
		if c.depth != nil {
			n.Depth = max(0, c.depth())
		}
		n.State, n.Note = c.shown(now)
		c.mu.Unlock()
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b Node) int { return comparePaths(a.Path, b.Path) })
	return out
}

// shown is the state as it is shown, with a note. c.mu is held.
func (c *cell) shown(now time.Time) (State, string) {
	switch wait := c.until.Sub(now); {
	case wait > 0 && (c.state == StateCrashed || c.state == StateStopped || c.state == StateRunning):
		return StateRestarting, "in " + brief(wait)
	case !c.stuck.IsZero():
		return c.state, fmt.Sprintf("(%s has not decided for %s)", c.stuckIn, brief(now.Sub(c.stuck)))
	case c.state != StateRunning:
	case c.box != nil && c.box.gated.Load():
		return StateHeld, ""
	case c.box != nil && c.box.suspended.Load():
		return StateSuspended, ""
	}
	return c.state, ""
}

func brief(d time.Duration) string {
	if d >= 10*time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
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
