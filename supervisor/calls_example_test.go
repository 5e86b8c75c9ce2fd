package supervisor_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/supervisor"
)

// The three ways to restart, the one that a supervisor has if it is given none, and a Spec that is out of range.
func ExampleStrategy() {
	for _, s := range []*supervisor.Strategy{
		supervisor.Default(),
		supervisor.AllForOne(supervisor.Spec{Intensity: 3}),
		supervisor.RestForOne(supervisor.Spec{Period: time.Hour}),
		supervisor.OneForOne(supervisor.Spec{Intensity: -2}),
	} {
		fmt.Println(s.Kind(), s.Spec().Intensity, s.Validate())
	}
	// Output:
	// one_for_one 20 <nil>
	// all_for_one 3 <nil>
	// rest_for_one 20 <nil>
	// one_for_one 0 supervisor: Intensity is -2, expected a number of restarts, 0 for 20, or -1 for none
}

// A strategy that is written for the actor library. What it is given as a reason is a *Crash.
func ExampleFromProtoactor() {
	s := supervisor.FromProtoactor(actor.NewOneForOneStrategy(10, time.Minute, func(reason any) actor.Directive {
		if crash, ok := reason.(*supervisor.Crash); ok && crash.Job != nil {
			return actor.RestartDirective
		}
		return actor.EscalateDirective
	}))
	_, theirs := s.Protoactor().(actor.SupervisorStrategy)
	fmt.Printf("%q %t\n", s.Kind(), theirs)
	fmt.Println(supervisor.NewCrash(errors.New("boom"), nil)) // to call such a strategy in a test
	// Output:
	// "" true
	// boom
}
