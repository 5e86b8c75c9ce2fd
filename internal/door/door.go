// Package door has what a daemon tells testkit and ops beside what it tells users. It is a package
// of its own since both import the daemon's.
package door

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"

	_ "github.com/troupehq/troupe/internal/only64" // what links the actor library refuses to build for 32 bit
)

// Faults injects faults into the tree of a daemon, each into the actor at a path. It
// returns an error if the daemon is not started or has no such actor (any more).
type Faults interface {
	// Crash makes the actor crash with reason, as if it had panicked.
	Crash(path string, reason error) error
	// Hold keeps the messages to the actor back until Release; Crash and the library's
	// own messages (stop, restart, the end of a child) pass. A restart does not end it;
	// the actor's end does, so that one spawned anew under the same path is not held.
	Hold(path string) error
	// Release delivers what Hold has kept back, in order, and ends it.
	Release(path string) error
	// Suspend stops the actor from taking messages, as the library does with one that
	// has crashed; a restart or Resume ends it. Messages wait in its mailbox.
	Suspend(path string) error
	// Resume ends a Suspend.
	Resume(path string) error
	// Actors is the system that the tree runs in, for probes that watch it; nil before
	// the start. Actors in it belong to the daemon: do not stop or message them.
	Actors() *actor.ActorSystem
}

// Queues are the queues of a daemon, each with the client that sees it and what is in progress of
// it as package inspect does; nil if its system keeps jobs in another way.
type Queues map[string]redis.UniversalClient
