package testkit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
)

// gates are the actors that the test holds or has suspended.
type gates struct {
	mu              sync.Mutex
	held, suspended map[string]bool
}

func newGates() *gates {
	return &gates{held: map[string]bool{}, suspended: map[string]bool{}}
}

func (g *gates) note(set map[string]bool, path string, on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if on {
		set[path] = true
	} else {
		delete(set, path)
	}
}

// String lists them; "" if there are none.
func (g *gates) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var lines []string
	for _, s := range []struct {
		word  string
		paths map[string]bool
	}{{"held", g.held}, {"suspended", g.suspended}} {
		if len(s.paths) > 0 {
			lines = append(lines, fmt.Sprintf("%s by the test: %s", s.word, strings.Join(slices.Sorted(maps.Keys(s.paths)), ", ")))
		}
	}
	return strings.Join(lines, "\n")
}

// Crash makes the actor at path crash with reason, as if it had panicked. Strict
// expects this one crash.
func (k *Kit) Crash(path string, reason error) {
	k.tb.Helper()
	k.Allow(Crashes(path).Times(1))
	k.inject("crash", k.Daemon.Faults().Crash(path, reason))
}

// Crash makes the actor at path of a daemon without a Kit crash with reason, as if it had
// panicked.
func Crash(tb testing.TB, d *actors.Daemon, path string, reason error) {
	tb.Helper()
	if err := d.Faults().Crash(path, reason); err != nil {
		tb.Fatalf("crash: %v", err)
	}
}

// CrashWhen crashes the actor at path with reason when an event passes f. It does so once,
// or n times if f has Times(n). It is asynchronous, as events are; to crash an
// actor at one of its commands to Redis see chaos.Effect.
func (k *Kit) CrashWhen(path string, f Filter, reason error) {
	k.tb.Helper()
	left := max(f.max, 1)
	k.tb.Cleanup(k.Subscribe(func(e event.Event) {
		if left > 0 && f.match(e) {
			left--
			k.Allow(Crashes(path).Times(1))
			_ = k.Daemon.Faults().Crash(path, reason) // it may be gone
		}
	}))
}

// Hold keeps messages to the actor at path back until Release, or the end of the
// test; Crash and the library's own messages (stop, restart, the end of a child) pass.
// A restart does not end it; the end of the actor does. In a tree printed meanwhile the mailbox shows
// what is held.
func (k *Kit) Hold(path string) {
	k.tb.Helper()
	k.inject("hold", k.Daemon.Faults().Hold(path))
	k.gates.note(k.gates.held, path, true)
}

// Release delivers what Hold has kept back, in order, and ends it.
func (k *Kit) Release(path string) {
	k.tb.Helper()
	k.inject("release", k.Daemon.Faults().Release(path))
	k.gates.note(k.gates.held, path, false)
}

// Suspend stops the actor at path from taking messages until Resume, a restart,
// or the end of the test.
func (k *Kit) Suspend(path string) {
	k.tb.Helper()
	k.inject("suspend", k.Daemon.Faults().Suspend(path))
	k.gates.note(k.gates.suspended, path, true)
}

// Resume ends a Suspend.
func (k *Kit) Resume(path string) {
	k.tb.Helper()
	k.inject("resume", k.Daemon.Faults().Resume(path))
	k.gates.note(k.gates.suspended, path, false)
}

func (k *Kit) inject(what string, err error) {
	k.tb.Helper()
	if err != nil {
		k.tb.Fatalf("%s: %v\n%s", what, err, k.show())
	}
}

// openGates lets the stop at the end of the test take its ordinary way. Actors
// that have gone are no matter.
func (k *Kit) openGates() {
	k.gates.mu.Lock()
	held, suspended := slices.Collect(maps.Keys(k.gates.held)), slices.Collect(maps.Keys(k.gates.suspended))
	k.gates.mu.Unlock()
	for _, path := range held {
		_ = k.Daemon.Faults().Release(path)
		k.gates.note(k.gates.held, path, false)
	}
	for _, path := range suspended {
		_ = k.Daemon.Faults().Resume(path)
		k.gates.note(k.gates.suspended, path, false)
	}
}
