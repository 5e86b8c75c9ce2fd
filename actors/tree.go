package actors

import (
	"fmt"
	"time"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/internal/tree"
)

// The tree as a daemon shows it.
type (
	// State of an actor in the tree.
	State = tree.State

	// Node is one actor of the live tree.
	Node = tree.Node

	// Budget is how many restarts a supervisor has used within the last Period, of how many.
	Budget = tree.Budget

	// JobRef names a job.
	JobRef = tree.JobRef

	// Unresponsive is a job that does not end although its context was cancelled Config.Grace
	// ago or longer: its timeout has passed, or another process has its unit.
	Unresponsive = tree.Unresponsive

	// Tree is a snapshot of the supervision tree, parents before children. Its String draws it,
	// one actor a line; its Find returns the Node at a path.
	Tree = tree.Tree
)

// The states of an actor. A running processor shows StateBusy or StateIdle, and
// StateStarting until it takes jobs.
const (
	StateStarting   = tree.StateStarting
	StateRunning    = tree.StateRunning
	StateIdle       = tree.StateIdle
	StateBusy       = tree.StateBusy
	StateHeld       = tree.StateHeld       // runs, but messages are kept from it
	StateSuspended  = tree.StateSuspended  // runs, but takes no messages
	StateCrashed    = tree.StateCrashed    // suspended until its strategy has decided
	StateRestarting = tree.StateRestarting // or waits for that; the note tells how long
	StateStopping   = tree.StateStopping
	StateStopped    = tree.StateStopped
)

func refsOf(ws []*work.Item) []JobRef {
	refs := make([]JobRef, len(ws))
	for i, w := range ws {
		refs[i] = w.Job.Ref()
	}
	return refs
}

// Tree is a snapshot of the supervision tree.
func (d *Daemon) Tree() Tree { return d.tree(d.env.System.Snapshot(time.Now())) }

func (d *Daemon) tree(rows []supervised.Row) (t Tree) {
	for _, r := range rows {
		t = append(t, Node{
			Path: r.Path, Role: r.Role, Capsule: r.Capsule, State: State(r.State), Note: r.Note,
			Restarts: r.Restarts, LastFailure: r.LastFailure, Depth: r.Depth, For: r.For,
		})
	}
	for _, c := range d.capsules {
		c.show(t)
	}
	for i := range t {
		if used, most, period := d.env.System.Budget(t[i].Path); most > 0 {
			t[i].Budget = &Budget{Used: used, Most: most, Period: period}
		}
	}
	return t
}

// show fills in what the capsule knows of its actors.
func (c *capsule) show(t Tree) {
	quietBy, starting, work := c.whoQuieted(), c.pool.starting(), map[string]*work.Item{}
	for s, w := range c.pool.working() {
		work[s.path] = w
	}
	for i := range t {
		n := &t[i]
		if n.Role == "manager" && n.Capsule == c.cfg.Name {
			n.Unresponsive, _ = c.runs.Unresponsive()
			if quietBy != "" && n.Note == "" {
				n.Note = fmt.Sprintf("(quiet: %s was stopped by its strategy)", quietBy)
			}
		}
		if n.Role != "processor" || n.Capsule != c.cfg.Name {
			continue
		}
		w := work[n.Path]
		if w != nil { // also of an actor that is down: the job goes on
			ref := w.Job.Ref()
			n.Job = &ref
		}
		switch {
		case n.State != StateRunning:
		case w != nil:
			n.State = StateBusy
		case starting[n.Path]:
			n.State = StateStarting
		default:
			n.State = StateIdle
		}
	}
}
