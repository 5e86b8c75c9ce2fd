package actors

import "github.com/troupehq/troupe/internal/tree"

// The tree as a daemon shows it.
type (
	// State of an actor in the tree.
	State = tree.State

	// Node is one actor of the live tree.
	//
	//	Path        string // launcher/default/processor-3
	//	Role        string
	//	Capsule     string
	//	State       State
	//	Note        string // more about the state, in words
	//	Restarts    int
	//	LastFailure string
	//	Depth       int     // user messages waiting in its mailbox
	//	Job         *JobRef // that a processor runs
	//	// Unresponsive are jobs of a manager's capsule that do not end although their
	//	// contexts were cancelled; at most 20.
	//	Unresponsive []Unresponsive
	//	For          time.Duration // time in this state
	//	// Budget is the restart budget of a supervisor; nil if its strategy has none.
	//	Budget *Budget
	Node = tree.Node

	// Budget is how many restarts a supervisor has used within the last Period, of how many.
	//
	//	Used   int
	//	Most   int
	//	Period time.Duration
	//	String() string
	Budget = tree.Budget

	// JobRef names a job.
	//
	//	JID     string
	//	Class   string
	//	Queue   string
	//	Started time.Time
	JobRef = tree.JobRef

	// Unresponsive is a job that does not end although its context was cancelled Config.Grace
	// ago or longer: its timeout has passed, somebody has cancelled it, or another process has it.
	//
	//	JobRef
	//	Since    time.Time // its context was cancelled
	//	Cause    string
	//	Stack    string // of its goroutine, when it was found to be so
	//	Replaced bool   // its slot is another job's
	Unresponsive = tree.Unresponsive

	// Tree is a snapshot of the supervision tree, parents before children. Its String draws it,
	// one actor a line; its Find returns the Node at a path.
	//
	//	[]Node
	//	Find(path string) Node
	//	String() string
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
