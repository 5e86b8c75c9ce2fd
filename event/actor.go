package event

import "time"

// ActorEvent is what every event about an actor carries.
type ActorEvent struct {
	At   time.Time
	Path string
	Role string
}

// The life of an actor.
type (
	// ActorStarted says: its first life begins.
	ActorStarted struct{ ActorEvent }
	// ActorCrashed says: it panicked and waits for its strategy.
	ActorCrashed struct {
		ActorEvent
		Err   error
		Stack []byte
	}
	// ActorRestarted says: a new incarnation runs, or one that replaces an ended actor.
	ActorRestarted struct {
		ActorEvent
		Restarts int
	}
	// ActorResumed says: after a crash the same incarnation goes on; only the
	// message is lost.
	ActorResumed struct{ ActorEvent }
	// ActorStopped says: it has ended.
	ActorStopped struct{ ActorEvent }
	// ActorEscalated says: as a supervisor it gave up; Err has the chain of causes.
	ActorEscalated struct {
		ActorEvent
		Err error
	}
	// StrategyBlocked says: this supervisor waits for its strategy, which was asked
	// at Since and does not return.
	StrategyBlocked struct {
		ActorEvent
		Strategy string // its Go type
		Since    time.Time
	}
	// StrategyReturned says: after StrategyBlocked, it has returned.
	StrategyReturned struct {
		ActorEvent
		Strategy string
		After    time.Duration
	}
	// StrategyOverruled says: the strategy of this supervisor, or its decider,
	// panicked or was too slow, and the default decided.
	StrategyOverruled struct {
		ActorEvent
		Strategy string // its Go type, or "decider"
		Err      error
	}
)
