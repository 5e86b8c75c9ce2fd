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

// Step is the argument list of a job of class Scripted: what the job does. OK, Fail,
// Panic, Slow and Hang make the common ones. Other values of Do:
//
//   - discard returns troupe.Discard(Err), and kill returns troupe.Kill(Err).
//   - goexit ends its goroutine, as t.FailNow does.
//   - unresponsive runs until Jobs.Release, whatever its context says.
//   - exit ends the process with code N, as if it had crashed: for tests that run
//     the daemon in a process of its own.
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

// Slow is done after d, in whole milliseconds, whatever its context says.
func Slow(d time.Duration) Step { return Step{Do: "slow", N: d.Milliseconds()} }

// Hang runs until its context is cancelled, and returns the context's error, or
// until Jobs.Release.
func Hang() Step { return Step{Do: "hang"} }
