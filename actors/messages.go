package actors

// The messages are tiny values, and supervised.Wake is the one that is sent most. None
// carries a job or a fact: what is owned stands in the capsule's ledger and slots, which
// outlive every actor, so a message that is lost or doubled costs nothing. Every receiver
// derives its next step from there.

// quiet tells an actor that fetching has ended for good. The capsule flags are
// set before it is sent.
type quiet struct{}

// resized tells a manager that its capsule has another number of processors.
type resized struct{}

// stop tells the launcher, and by it the relays, that the stop has begun; phase and deadline are in the daemon.
type stop struct{}

// They may be sent to actors that are gone; that is no dead letter to tell of.
func (quiet) IgnoreDeadLetterLogging()   {}
func (resized) IgnoreDeadLetterLogging() {}
func (stop) IgnoreDeadLetterLogging()    {}
