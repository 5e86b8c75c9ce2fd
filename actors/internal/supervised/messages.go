package supervised

// Wake tells an actor to look at its state and take the next step. It carries nothing:
// one that is lost or doubled costs nothing.
type Wake struct{}

// Crash makes the receiving actor crash with Reason. It comes from a goroutine of that
// actor's that panicked, and from fault injection.
type Crash struct {
	Reason any
	at     uint64 // epoch of the panic: an incarnation that began later is the answer to it; 0 from fault injection
}

// IgnoreDeadLetterLogging says that one to an actor that is gone is not to be told of.
func (Wake) IgnoreDeadLetterLogging() {}

// IgnoreDeadLetterLogging is that of Wake: the system tells of these itself.
func (Crash) IgnoreDeadLetterLogging() {}
