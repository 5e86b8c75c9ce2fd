package actors

import "github.com/troupehq/troupe/internal/beat"

// Messages are tiny values, and supervised.Wake is the one that is sent most. None
// carries a unit of work: what is owned stands in the capsule's ledger and slots, which
// outlive every actor, so a message that is lost or doubled costs nothing. Every receiver
// derives its next step from there.

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

// They may be sent to actors that are gone; that is no dead letter to tell of.
func (tick) IgnoreDeadLetterLogging()   {}
func (quiet) IgnoreDeadLetterLogging()  {}
func (stop) IgnoreDeadLetterLogging()   {}
func (beaten) IgnoreDeadLetterLogging() {}

func (polled) IgnoreDeadLetterLogging()    {}
func (promoted) IgnoreDeadLetterLogging()  {}
func (led) IgnoreDeadLetterLogging()       {}
func (leadEnded) IgnoreDeadLetterLogging() {}
func (renewed) IgnoreDeadLetterLogging()   {}
func (rescued) IgnoreDeadLetterLogging()   {}
