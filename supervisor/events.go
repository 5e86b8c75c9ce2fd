package supervisor

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Beside the library's SupervisorEvent, a Strategy publishes these on the event
// stream of the actor system. The daemon turns them into its own events, its log
// and its tree.
type (
	// Overruled says: the decider panicked, ended its goroutine, needed more than
	// 1 s or answered nonsense; the default decided.
	Overruled struct {
		Child *actor.PID // whose failure it was asked about
		Err   error
	}
	// Waiting says: the child's restart, or its replacement's start, is due at Until;
	// after all at once if that is zero.
	Waiting struct {
		Child *actor.PID
		Until time.Time
	}
)

// publish tells the subscribers, which are called inline: a panic or Goexit in
// one must not keep the strategy from deciding, nor end the process at the root.
func publish(sys *actor.ActorSystem, event any) {
	<-contain(func() { sys.EventStream.Publish(event) }) //nolint:errcheck // nobody is left to be told
}

// tell publishes what was decided about a failure.
func tell(sys *actor.ActorSystem, child *actor.PID, f Failure, d actor.Directive) {
	publish(sys, &actor.SupervisorEvent{Child: child, Reason: &Crash{Reason: f.Reason, Stack: f.Stack}, Directive: d})
}

// tellWaiting publishes until when ms wait.
func tellWaiting(sys *actor.ActorSystem, ms []*member, until time.Time) {
	for _, m := range ms {
		publish(sys, &Waiting{Child: m.pid, Until: until})
	}
}
