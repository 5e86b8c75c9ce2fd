package actors

import "github.com/troupehq/troupe/internal/beat"

// Messages are tiny values. None carries a unit of work: ownership lives in
// the capsule's ledger and slots, which outlive every actor, so a lost or
// doubled message costs nothing. Every receiver derives its next step from
// that state, on each doorbell and when it starts.

// wake is the doorbell: look at your state and take the next step.
type wake struct{}

// tick is a timer of the receiver's own; one with an old epoch is from an
// earlier incarnation and dropped.
type tick struct {
	epoch uint64
	kind  int
}

// quiet tells an actor that fetching has ended for good. The capsule flags are
// set before it is sent.
type quiet struct{}

// stop tells the launcher that the stop protocol has begun; phase and deadline
// are in the daemon.
type stop struct{}

// beaten reports a heartbeat to the heartbeat actor.
type beaten struct {
	epoch  uint64
	result beat.Result
	err    error
}

// inject makes the receiving actor crash with reason. It comes from a goroutine
// of that actor's that panicked, and from Daemon.Crash.
type inject struct {
	reason any
	at     uint64 // epoch of the panic: an incarnation that began later is the answer to it; 0 from Daemon.Crash
}

// Doorbells ring at actors that may be gone; that is no dead letter to tell of.
func (wake) IgnoreDeadLetterLogging()   {}
func (tick) IgnoreDeadLetterLogging()   {}
func (quiet) IgnoreDeadLetterLogging()  {}
func (stop) IgnoreDeadLetterLogging()   {}
func (beaten) IgnoreDeadLetterLogging() {}
func (inject) IgnoreDeadLetterLogging() {}

func (polled) IgnoreDeadLetterLogging()    {}
func (promoted) IgnoreDeadLetterLogging()  {}
func (led) IgnoreDeadLetterLogging()       {}
func (leadEnded) IgnoreDeadLetterLogging() {}
func (renewed) IgnoreDeadLetterLogging()   {}
func (rescued) IgnoreDeadLetterLogging()   {}
