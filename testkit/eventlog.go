package testkit

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/words"
)

// logSize is how many events a kit remembers to show them.
const logSize = 200

// eventLog is what a kit remembers of its daemon.
type eventLog struct {
	mu      sync.Mutex
	recent  []event.Event
	faults  []event.Event // what a strict kit asks about
	lost    int           // events that this log was too slow for
	letters []string      // dead letters
	allowed []*allowance
}

func newEventLog() *eventLog { return &eventLog{} }

func (l *eventLog) record(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.recent) == logSize {
		l.recent = slices.Delete(l.recent, 0, logSize/2)
	}
	l.recent = append(l.recent, e)
	switch e := e.(type) {
	case event.ActorCrashed, event.ActorEscalated, event.StrategyBlocked, event.StrategyOverruled,
		event.CapsuleQuiet, event.JobsAbandoned, event.Fenced:
		l.faults = append(l.faults, e)
	case event.EventsDropped:
		l.lost += e.N
	}
}

func (l *eventLog) last(n int) []event.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.recent[max(0, len(l.recent)-n):])
}

// watchDeadLetters notes messages that found nobody. Wake-ups may find nobody, and
// the library's own messages are no matter.
func (l *eventLog) watchDeadLetters(sys *actor.ActorSystem) {
	sys.EventStream.Subscribe(func(e any) {
		d, ok := e.(*actor.DeadLetterEvent)
		if !ok {
			return
		}
		switch d.Message.(type) {
		case actor.IgnoreDeadLetterLogging, actor.SystemMessage, actor.AutoReceiveMessage, actor.InfrastructureMessage:
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.letters = append(l.letters, fmt.Sprintf("%T to %s", d.Message, d.PID.GetId()))
	})
}

// formatEvent is an event in a line: time, name, who, what.
func formatEvent(e event.Event) string {
	name := reflect.TypeOf(e).Name()
	if j, ok := jobOf(e); ok {
		line := fmt.Sprintf("%s %s %s %s on %s", j.At.Format("15:04:05.000"), name, words.Text(j.Job.Class), words.Text(j.Job.JID), j.Actor)
		return withCause(line, e)
	}
	if a, ok := actorOf(e); ok {
		return withCause(fmt.Sprintf("%s %s %s", a.At.Format("15:04:05.000"), name, a.Path), e)
	}
	return fmt.Sprintf("%s %+v", name, e)
}

func withCause(line string, e event.Event) string {
	if err := causeOf(e); err != nil {
		return line + ": " + words.FirstLine(err.Error(), words.MaxHead)
	}
	return line
}

// actorOf returns what every event about an actor carries.
func actorOf(e event.Event) (event.ActorEvent, bool) {
	switch e := e.(type) {
	case event.ActorStarted:
		return e.ActorEvent, true
	case event.ActorCrashed:
		return e.ActorEvent, true
	case event.ActorRestarted:
		return e.ActorEvent, true
	case event.ActorResumed:
		return e.ActorEvent, true
	case event.ActorStopped:
		return e.ActorEvent, true
	case event.ActorEscalated:
		return e.ActorEvent, true
	case event.StrategyBlocked:
		return e.ActorEvent, true
	case event.StrategyReturned:
		return e.ActorEvent, true
	case event.StrategyOverruled:
		return e.ActorEvent, true
	}
	return event.ActorEvent{}, false
}

// jobOf returns what every event about a job carries.
func jobOf(e event.Event) (event.JobEvent, bool) {
	switch e := e.(type) {
	case event.JobStarted:
		return e.JobEvent, true
	case event.JobDone:
		return e.JobEvent, true
	case event.JobFailed:
		return e.JobEvent, true
	case event.JobLate:
		return e.JobEvent, true
	case event.JobRetried:
		return e.JobEvent, true
	case event.JobDied:
		return e.JobEvent, true
	case event.JobDropped:
		return e.JobEvent, true
	case event.JobInterrupted:
		return e.JobEvent, true
	case event.JobParked:
		return e.JobEvent, true
	case event.JobMoved:
		return e.JobEvent, true
	case event.JobHandedOver:
		return e.JobEvent, true
	case event.JobLeft:
		return e.JobEvent, true
	case event.JobExpired:
		return e.JobEvent, true
	case event.JobHeld:
		return e.JobEvent, true
	case event.JobCalledOff:
		return e.JobEvent, true
	case event.BreakerOpened:
		return e.JobEvent, true
	case event.BreakerClosed:
		return e.JobEvent, true
	case event.JobUnresponsive:
		return e.JobEvent, true
	}
	return event.JobEvent{}, false
}

// causeOf returns the error of an event; nil if it has none.
func causeOf(e event.Event) error {
	switch e := e.(type) {
	case event.ActorCrashed:
		return e.Err
	case event.ActorEscalated:
		return e.Err
	case event.StrategyOverruled:
		return e.Err
	case event.CapsuleQuiet:
		return e.Err
	case event.JobFailed:
		return e.Err
	case event.JobLate:
		return e.Err
	case event.JobParked:
		return e.Err
	case event.JobPoisoned:
		return e.Err
	}
	return nil
}
