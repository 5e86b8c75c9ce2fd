// Package supervision has what a supervisor.Strategy publishes on the event stream of the
// actor system, beside the library's SupervisorEvent. The daemon turns it into its own
// events, its log and its tree.
package supervision

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	_ "github.com/troupehq/troupe/internal/only64" // what links the actor library refuses to build for 32 bit
)

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
