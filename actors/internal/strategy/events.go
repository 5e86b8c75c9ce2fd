package strategy

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// What a Strategy publishes on the event stream of the actor system, beside the library's
// SupervisorEvent.

// Overruled says: the decider panicked, ended its goroutine, needed more than 1 s or
// answered nonsense; the default decided.
type Overruled struct {
	Child *actor.PID // whose failure it was asked about
	Err   error
}

// Waiting says: the child's restart, or its replacement's start, is due at Until; after
// all at once if that is zero.
type Waiting struct {
	Child *actor.PID
	Until time.Time
}
