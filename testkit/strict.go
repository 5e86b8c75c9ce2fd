package testkit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/troupehq/troupe/actors"
)

// Strict makes the test fail at its end on anything that it did not expect: an
// actor that crashed or escalated, a strategy that failed, a dead letter (other than a doorbell), a job
// abandoned, fenced, left unsettled or lost, a daemon that gave up, and a
// goroutine left behind. What Kit.Crash causes and Kit.Expect has seen is
// expected; Kit.Allow names more.
//
// The search for goroutines looks at the whole process, so in real time a strict
// test must not be parallel to others; in a bubble testing/synctest itself sees
// to it.
func Strict() Option { return func(s *settings) { s.strict = true } }

// allowance is an event filter with what is left of its number.
type allowance struct {
	Filter
	used int
}

// Allow tells a strict kit that these events may happen: as many as f says with
// Times, else any number. It may be called before or after the fact.
func (k *Kit) Allow(filters ...Filter) {
	k.log.mu.Lock()
	defer k.log.mu.Unlock()
	for _, f := range filters {
		k.log.allowed = append(k.log.allowed, &allowance{Filter: f})
	}
}

// expected uses up one allowance for e, bounded ones first. Who expects a restart
// expects the crash before it.
func (l *eventLog) expected(e actors.Event) bool {
	after := e
	if c, ok := e.(actors.ActorCrashed); ok {
		after = actors.ActorRestarted{ActorEvent: c.ActorEvent}
	}
	for _, bounded := range []bool{true, false} {
		for _, a := range l.allowed {
			if (a.max >= 0) == bounded && (a.max < 0 || a.used < a.max) && a.match != nil && (a.match(e) || a.match(after)) {
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
	for _, e := range l.faults {
		if !l.expected(e) {
			faults = append(faults, "unexpected: "+formatEvent(e))
		}
	}
	for _, letter := range l.letters {
		faults = append(faults, "dead letter: "+letter)
	}
	if l.lost > 0 {
		k.tb.Logf("strict: %d events were not seen; what they told is unknown", l.lost)
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
		k.tb.Errorf("strict:\n  %s\n%s", strings.Join(faults, "\n  "), k.describe())
	}
}

// allowedEnd tells whether the test expects the launcher to give up.
func (k *Kit) allowedEnd() bool {
	k.log.mu.Lock()
	defer k.log.mu.Unlock()
	for _, a := range k.log.allowed {
		if a.match != nil && a.max != 0 && a.match(actors.ActorEscalated{ActorEvent: actors.ActorEvent{Path: "launcher", Role: "launcher"}}) {
			return true
		}
	}
	return false
}

// leakTime is how long goroutines may take to end after everything is closed.
const leakTime = 3 * time.Second

// checkLeaks looks at the end of the test for goroutines that were not there now.
func checkLeaks(tb testing.TB) {
	if inBubble() {
		return
	}
	before := goleak.IgnoreCurrent()
	tb.Cleanup(func() {
		var err error
		for deadline := time.Now().Add(leakTime); time.Now().Before(deadline); {
			if err = goleak.Find(before, memoryServer); err == nil {
				return
			}
		}
		tb.Errorf("strict: %v", err)
	})
}

// memoryServer ends with its Memory, which may have been made before the kit.
var memoryServer = goleak.IgnoreAnyFunction("github.com/alicebob/miniredis/v2/server.(*Server).servePeer")

// inBubble tells a testing/synctest bubble by its clock, which begins in the
// year 2000; there is no other way to ask.
func inBubble() bool { return time.Now().Year() < 2020 }
