package supervisor

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/supervision"
)

// publish tells the subscribers, which are called inline: a panic or Goexit in
// one must not keep the strategy from deciding, nor end the process at the root.
func publish(sys *actor.ActorSystem, event any) {
	<-contain(func() { sys.EventStream.Publish(event) }) //nolint:errcheck // nobody is left to be told
}

// tell publishes, as the library does, what was decided about a failure.
func tell(sys *actor.ActorSystem, child *actor.PID, f Failure, d actor.Directive) {
	publish(sys, &actor.SupervisorEvent{Child: child, Reason: &Crash{Reason: f.Reason, Stack: f.Stack, Job: f.Job}, Directive: d})
}

// tellWaiting publishes until when ms wait.
func tellWaiting(sys *actor.ActorSystem, ms []*member, until time.Time) {
	for _, m := range ms {
		publish(sys, &supervision.Waiting{Child: m.pid, Until: until})
	}
}
