// Package script has jobs whose args say what they do: succeed, fail, panic, hang.
// They test how a daemon takes it.
//
//	jobs := script.New(t)
//	k := testkit.Start(t, actors.Config{Registry: jobs.Registry()})
//	jid := k.Push(script.Slow(20 * time.Second))
//	k.Await("the job", func() bool { return jobs.Ended(jid) })
package script

import (
	"errors"
	"time"
)

// Err is what jobs return that are to fail.
var Err = errors.New("scripted failure")

// Step is the argument list of a job of class Scripted: what the job does.
type Step struct {
	Do string `arg:"0"`
	N  int64  `arg:"1,optional"` // milliseconds of "slow", code of "exit"
}

// Class returns "Scripted". Programs that push such a job themselves give the
// same args, like ["slow", 20].
func (Step) Class() string { return "Scripted" }

// OK is done at once.
func OK() Step { return Step{Do: "ok"} }

// Fail returns Err.
func Fail() Step { return Step{Do: "fail"} }

// Panic panics.
func Panic() Step { return Step{Do: "panic"} }

// Goexit ends its goroutine, as t.FailNow does.
func Goexit() Step { return Step{Do: "goexit"} }

// Discard returns troupe.Discard(Err).
func Discard() Step { return Step{Do: "discard"} }

// Kill returns troupe.Kill(Err).
func Kill() Step { return Step{Do: "kill"} }

// Slow is done after d, in whole milliseconds, whatever its context says.
func Slow(d time.Duration) Step { return Step{Do: "slow", N: d.Milliseconds()} }

// Hang runs until its context is cancelled, and returns the context's error, or
// until Jobs.Release.
func Hang() Step { return Step{Do: "hang"} }

// Unresponsive runs until Jobs.Release, whatever its context says.
func Unresponsive() Step { return Step{Do: "unresponsive"} }

// Exit ends the process with code, as if it had crashed: for tests that run the
// daemon in a process of its own.
func Exit(code int) Step { return Step{Do: "exit", N: int64(code)} }
