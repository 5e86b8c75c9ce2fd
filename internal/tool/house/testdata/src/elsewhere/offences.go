// Package elsewhere is none of those that may know the actor library.
package elsewhere

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor" // want depguard only actors, supervisor and testkit
)

var _ actor.PID

var _ = errors.Is(nil, nil) // no handler's error comes here
