package testkit

import (
	"fmt"
	"strings"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
)

// Strict makes the test fail at its end on anything that it did not expect: an
// actor that crashed or escalated, a strategy that failed, a dead letter (other
// than a wake-up), a job abandoned, fenced, left unsettled or lost, a daemon that
// gave up, events that the kit was too slow for, and a goroutine left behind. What
// Kit.Crash causes and Kit.Expect has seen is expected; Kit.Allow names more. It
// is crashes that must be expected, not restarts: those that a strategy restarts
// beside the crashed one need not be named.
//
// The search for goroutines looks at the whole process, so in real time a strict
// test must not be parallel to others. In a bubble it looks at the bubble only;
// one that is left there is also the end of the test binary, by testing/synctest.
func Strict() Option { return func(s *settings) { s.strict = true } }

// allowance is an event filter with what is left of its number.
type allowance struct {
	Filter
	used int
}

// Allow tells a strict kit that these events may happen: as many as f says with
// Times, else any number. It may be called before or after the fact.
func (k *Kit) Allow(filters ...Filter) {
	k.tb.Helper()
	for _, f := range filters {
		k.check("Allow", f)
	}
	k.log.mu.Lock()
	defer k.log.mu.Unlock()
	for _, f := range filters {
		k.log.allowed = append(k.log.allowed, &allowance{Filter: f})
	}
}

// expected uses up one allowance for e, bounded ones first. Who expects a restart
// expects the crash before it.
func (l *eventLog) expected(e event.Event) bool {
	after := e
	if c, ok := e.(event.ActorCrashed); ok {
		after = event.ActorRestarted{ActorEvent: c.ActorEvent}
	}
	for _, bounded := range []bool{true, false} {
		for _, a := range l.allowed {
			if (a.max >= 0) == bounded && (a.max < 0 || a.used < a.max) && (a.match(e) || a.match(after)) {
				a.used++
				return true
			}
		}
	}
	return false
}

// checkStrict is called when the daemon has ended, which delivers all events.
func (k *Kit) checkStrict() {
	k.tb.Helper()
	l := k.log
	l.mu.Lock()
	var faults []string
	unexpected := false
	for _, e := range l.faults {
		if !l.expected(e) {
			unexpected = true
			faults = append(faults, "unexpected: "+formatEvent(e))
		}
	}
	for _, letter := range l.letters {
		faults = append(faults, "dead letter: "+letter)
	}
	if l.lost > 0 {
		faults = append(faults, fmt.Sprintf("%d events came too fast to be seen; what they told is unknown", l.lost))
	}
	l.mu.Unlock()
	r := k.Report()
	for _, g := range []struct {
		what string
		jobs []actors.JobRef
	}{{"left unsettled", r.Left}, {"lost", r.Lost}} {
		for _, j := range g.jobs {
			faults = append(faults, fmt.Sprintf("%s: job %s %s (queue %s)", g.what, j.Class, j.JID, j.Queue))
		}
	}
	if err := k.Err(); err != nil && !k.allowedEnd() {
		faults = append(faults, "the daemon gave up: "+err.Error())
	}
	if len(faults) > 0 {
		if k.shown { // the tree is in the log already, as it was when the test failed
			k.before = ""
		}
		if unexpected {
			faults = append(faults, "what is meant to happen is awaited with kit.Expect, or allowed before or after: kit.Allow(testkit.Crashes(path)), kit.Allow(testkit.Events[event.CapsuleQuiet]())")
		}
		k.tb.Errorf("strict:\n  %s\n%s", strings.Join(faults, "\n  "), k.before)
	}
}

// allowedEnd reports whether the test expects the launcher to give up.
func (k *Kit) allowedEnd() bool {
	k.log.mu.Lock()
	defer k.log.mu.Unlock()
	for _, a := range k.log.allowed {
		if a.max != 0 && a.match(event.ActorEscalated{ActorEvent: event.ActorEvent{Path: "launcher", Role: "launcher"}}) {
			return true
		}
	}
	return false
}
