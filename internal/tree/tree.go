// Package tree is the supervision tree of a daemon as those see it who look: pages, commands,
// tests, and other processes, which read it as JSON. Package actors draws it from the live one and
// has its types under the same names; who only looks imports this package and not the engine.
package tree

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/words"
)

// State of an actor in the tree.
type State string

// The states of an actor. A running processor shows StateBusy or StateIdle, and
// StateStarting until it takes jobs.
const (
	StateStarting   State = "starting"
	StateRunning    State = "running"
	StateIdle       State = "idle"
	StateBusy       State = "busy"
	StateHeld       State = "held"       // runs, but messages are kept from it
	StateSuspended  State = "suspended"  // runs, but takes no messages
	StateCrashed    State = "crashed"    // suspended until its strategy has decided
	StateRestarting State = "restarting" // or waits for that; the note tells how long
	StateStopping   State = "stopping"
	StateStopped    State = "stopped"
)

// Node is one actor of the live tree.
type Node struct {
	Path        string  `json:"path"` // launcher/default/processor-3
	Role        string  `json:"role"`
	Capsule     string  `json:"capsule,omitempty"`
	State       State   `json:"state"`
	Note        string  `json:"note,omitempty"` // more about the state, in words
	Restarts    int     `json:"restarts"`
	LastFailure string  `json:"last_failure,omitempty"`
	Depth       int     `json:"depth"`         // user messages waiting in its mailbox
	Job         *JobRef `json:"job,omitempty"` // that a processor runs
	// Unresponsive are jobs of a manager's capsule that do not end although their
	// contexts were cancelled; at most 20.
	Unresponsive []Unresponsive `json:"unresponsive,omitempty"`
	For          time.Duration  `json:"for_ns"` // time in this state
	// Budget is the restart budget of a supervisor; nil if its strategy has none.
	Budget *Budget `json:"budget,omitempty"`
}

// Budget is how many restarts a supervisor has used within the last Period, of how many.
type Budget struct {
	Used   int           `json:"used"`
	Most   int           `json:"most"`
	Period time.Duration `json:"period_ns"`
}

// String is like "17/20 in 60s".
func (b Budget) String() string {
	return fmt.Sprintf("%d/%d in %gs", b.Used, b.Most, b.Period.Seconds())
}

// JobRef names a job.
type JobRef struct {
	JID     string    `json:"jid"`
	Class   string    `json:"class"`
	Queue   string    `json:"queue"`
	Started time.Time `json:"started,omitzero"` // zero if it has not begun
}

// Unresponsive is a job that does not end although its context was cancelled Config.Grace
// ago or longer: its timeout has passed, somebody has cancelled it, or another process has it.
type Unresponsive struct {
	JobRef
	Since    time.Time `json:"since"` // its context was cancelled
	Cause    string    `json:"cause"`
	Stack    string    `json:"stack,omitempty"` // of its goroutine, when it was found to be so
	Replaced bool      `json:"replaced"`        // its slot is another job's
}

// Tree is a snapshot of the supervision tree, parents before children.
type Tree []Node

// Find returns the node at path, the zero Node if there is none.
func (t Tree) Find(path string) Node {
	for _, n := range t {
		if n.Path == path {
			return n
		}
	}
	return Node{}
}

// String draws the tree, one actor a line.
func (t Tree) String() string {
	branches := t.branches()
	var all strings.Builder
	for i, n := range t {
		var b strings.Builder
		b.WriteString(branches[i])
		name := n.Path[strings.LastIndexByte(n.Path, '/')+1:]
		fmt.Fprintf(&b, "%-*s %s", max(1, 24-3*strings.Count(n.Path, "/")), name, n.State)
		if n.Note != "" {
			fmt.Fprintf(&b, " %s", n.Note)
		}
		if n.Job != nil {
			fmt.Fprintf(&b, " %s %s", words.Text(n.Job.Class), words.Text(n.Job.JID))
			if !n.Job.Started.IsZero() {
				fmt.Fprintf(&b, " %s", time.Since(n.Job.Started).Round(time.Millisecond))
			}
		}
		if n.Restarts > 0 {
			fmt.Fprintf(&b, "  restarts %d", n.Restarts)
		}
		if n.Budget != nil && n.Budget.Used > 0 {
			fmt.Fprintf(&b, "  budget %s", n.Budget)
		}
		if n.LastFailure != "" {
			fmt.Fprintf(&b, ": %s", words.FirstLine(n.LastFailure, 100))
		}
		if n.Depth > 0 {
			fmt.Fprintf(&b, "  mailbox %d", n.Depth)
		}
		for _, j := range n.Unresponsive {
			fmt.Fprintf(&b, "  unresponsive: %s %s for %s", words.Text(j.Class), words.Text(j.JID), words.Few(time.Since(j.Since)))
		}
		all.WriteString(strings.ReplaceAll(b.String(), "\n", " ") + "\n") // a class may have any bytes
	}
	return all.String()
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
