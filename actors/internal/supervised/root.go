package supervised

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/strategy"
	"github.com/troupehq/troupe/supervisor"
)

// Root returns the strategy of the tree's root: what is above the launcher. A
// root has nobody to escalate to: the launcher is stopped and fatal is told, at
// once when the launcher gave up (an *Exceeded is its reason), and when its own
// panics are more than spec allows. Nobody would start a replacement, and nothing lives while
// the launcher waits: spec.Replace and spec.Backoff have no effect.
func Root(spec supervisor.Spec, fatal func(error)) actor.SupervisorStrategy {
	spec.Replace, spec.Backoff = false, supervisor.Backoff{Min: -1}
	return &root{Strategy: strategy.Of(supervisor.OneForOne(spec)), fatal: fatal}
}

type root struct {
	*strategy.Strategy
	fatal func(error)
}

// HandleFailure is called in the failing actor's goroutine. A panic would end
// the process there, and a Goexit the actor's mailbox.
func (r *root) HandleFailure(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, rs *actor.RestartStatistics, reason, message any) {
	err := Isolate(func() {
		crash, own := supervisor.NewCrash(reason, nil), rootSupervisor{sup, child, r.fatal}
		if _, gaveUp := crash.Reason.(*supervisor.Exceeded); gaveUp { //nolint:errorlint // the launcher's own reason
			sys.EventStream.Publish(&actor.SupervisorEvent{Child: child, Reason: crash, Directive: actor.EscalateDirective})
			own.EscalateFailure(crash, message)
			return
		}
		r.Strategy.HandleFailure(sys, own, child, rs, crash, message)
	})
	if err != nil {
		r.fatal(err)
		sup.StopChildren(child)
	}
}

// rootSupervisor is what a strategy may ask of the root. The library's guardian
// panics when asked for its children, or to escalate.
type rootSupervisor struct {
	actor.Supervisor
	child *actor.PID
	fatal func(error)
}

func (s rootSupervisor) EscalateFailure(reason, _ any) {
	s.fatal(supervisor.NewCrash(reason, nil).Reason)
	s.StopChildren(s.child)
}

func (s rootSupervisor) Children() []*actor.PID { return []*actor.PID{s.child} }
