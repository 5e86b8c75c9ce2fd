package supervisor

import "github.com/asynkron/protoactor-go/actor"

// FromProtoactor makes a Strategy of one that is written for the actor library: one of its
// own, or yours. It is for what a Spec with a Decide cannot do.
//
// HandleFailure gets a *Crash as its reason, runs in a goroutine of its own, one call at a
// time, while its supervisor waits, and should return at once. If s has state, give each
// supervisor a value of its own. docs/supervision.md has the methods that s may have beside it.
func FromProtoactor(s actor.SupervisorStrategy) *Strategy {
	if s == nil {
		return &Strategy{}
	}
	return &Strategy{foreign: s}
}
