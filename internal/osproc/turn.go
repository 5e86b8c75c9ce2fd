// This file is where a simulation takes over the daemon's goroutines: each of
// them asks for its turn when it is ready to start, or to go on after a wait.
// Without a simulation that is a go statement, and nothing.

package osproc

import "os"

// PID is the number of this process. Daemons that share one process in a
// simulation have a number each, and the same in every repetition: it is a part of
// their identities, by which their pauses are spread.
var PID = os.Getpid

// TurnHook is nil but in a simulation, which sets it before any daemon is made. It
// must see to it that f runs, some time and in a goroutine of its own; process is
// the identity of the daemon, what the same in every repetition.
var TurnHook func(process, what string, f func())

// Go runs f in a goroutine.
func Go(process, what string, f func()) {
	if TurnHook != nil {
		TurnHook(process, what, f)
		return
	}
	go f()
}

// AwaitTurn waits for the turn of a goroutine that has been woken.
func AwaitTurn(process, what string) {
	if TurnHook != nil {
		ready := make(chan struct{})
		TurnHook(process, what, func() { close(ready) })
		<-ready
	}
}
