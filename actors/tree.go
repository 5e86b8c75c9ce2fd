package actors

import "github.com/troupehq/troupe/internal/tree"

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
