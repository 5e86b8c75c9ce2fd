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

// IgnoreDeadLetterLogging keeps a Wake to an actor that is gone out of the log.
func (Wake) IgnoreDeadLetterLogging() {}

// IgnoreDeadLetterLogging keeps a Crash to an actor that is gone out of the log: the system logs crashes itself.
func (Crash) IgnoreDeadLetterLogging() {}
