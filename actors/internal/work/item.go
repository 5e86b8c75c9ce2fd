// Package work keeps the jobs that a capsule has fetched and not settled: the ledger, in
// which one compare-and-swap decides who may say what becomes of a job, the look-ahead,
// which decides how many are fetched, and the settler, which carries outcomes to Redis.
package work

import (
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/tree"
)

// Item is a fetched job on its way through this process.
type Item struct {
	Unit    fetch.Unit
	Fetched time.Time
	Job     Job  // does not change
	Sampled bool // how long it has waited is counted
	Suspect bool // its process has died under it before: it runs alone

	ByItself atomic.Bool // it ended, and its own outcome is what gets settled; false again if that is refused
	Again    atomic.Bool // it was interrupted, and goes on in another run
	Iterated string      // jid of an iterable job that is done: its state goes when the ack is in Redis

	state atomic.Uint32

	// Guarded by the ledger.
	prev, next *Item
	listed     bool
}

// Job is what is known of the job of an Item. Its methods may be called at any time, from
// any goroutine.
type Job interface {
	Ref() tree.JobRef
	// Interrupt cancels its context, if it runs.
	Interrupt(cause error)
}

// The states of an Item.
const (
	open     uint32 = iota // fetched; may be waiting or running
	settling               // its outcome is decided, the I/O is under way
	gone                   // settled, or no longer ours
)

// Age is how long ago w was fetched, by the wall clock or by the monotonic clock, whichever
// shows more time: the wall clock may be set, and the other one stands still while the
// machine is suspended.
func (w *Item) Age(now time.Time) time.Duration {
	return max(now.Sub(w.Fetched), now.Round(0).Sub(w.Fetched.Round(0)))
}

// Gone tells whether w is settled, or somebody else's.
func (w *Item) Gone() bool { return w.state.Load() == gone }
