package supervised

import (
	"runtime/debug"

	"github.com/troupehq/troupe/actors/internal/strategy"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/supervisor"
)

// Spawn runs f in a goroutine of the daemon's machinery. If f panics, the actor at path
// owner crashes with that panic, so that its strategy decides; nothing dies silently.
func (s *System) Spawn(owner string, f func()) { s.SpawnAs(s.Goroutines, owner, f) }

// SpawnAs is Spawn for a goroutine that is counted by counter.
func (s *System) SpawnAs(counter *Tracker, owner string, f func()) {
	counter.Add(1)
	osproc.Go(s.identity, owner, func() {
		defer counter.Done()
		defer func() {
			if v := recover(); v != nil {
				s.Panicked(owner, v)
			}
		}()
		f()
	})
}

// Panicked makes the actor at path owner crash with v, with which a goroutine that worked for it
// has panicked just now. It is called while that goroutine's stack still stands.
func (s *System) Panicked(owner string, v any) {
	s.Send(owner, Crash{Reason: supervisor.NewCrash(v, debug.Stack()), at: s.NextEpoch()})
}

// Isolate runs a user's callback in a goroutine of its own and waits for it: a
// panic or Goexit in it is returned as an error and ends nothing else.
func Isolate(f func()) error { return <-Isolated(f) }

// Tell writes a line of the log, which may have a hook of the user's, in a goroutine that a panic
// must not end.
func Tell(line func()) { _ = Isolate(line) }

// Isolated is Isolate for those who wait for it in their own way.
func Isolated(f func()) <-chan error { return strategy.Contain(f) }
