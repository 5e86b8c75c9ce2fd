// Package probe has an actor for tests: it records what it is sent, for tests of
// actors and strategies.
package probe

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	_ "github.com/troupehq/troupe/internal/only64" // as all that link the actor library
)

// probeTime is how long a probe waits for a message unless told otherwise.
const probeTime = 10 * time.Second

// System returns a silent actor system for a test's own actors.
func System(tb testing.TB) *actor.ActorSystem {
	tb.Helper()
	sys := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
		actor.WithDeadLetterThrottleInterval(20*time.Millisecond),
	)
	tb.Cleanup(func() {
		time.Sleep(50 * time.Millisecond) // the dead-letter window; a bubble may not end before it
		sys.Shutdown()
	})
	return sys
}

// Probe is an actor that records what it is sent. The test asks about that message
// by message, in the order of arrival, in real time or in a bubble. What waits and
// fails the test belongs to the test's goroutine: never call it inside an actor,
// where t.FailNow would end the mailbox for good.
type Probe struct {
	// Wait is how long each expectation waits; 10 s at first.
	Wait time.Duration

	tb    testing.TB
	sys   *actor.ActorSystem
	pid   *actor.PID
	ended chan struct{}

	mu     sync.Mutex
	queue  []letter
	wake   chan struct{} // holds a token after an arrival
	sender *actor.PID    // of the message looked at last
}

type letter struct {
	message any
	sender  *actor.PID
}

// New starts a probe in sys and stops it at the end of the test.
func New(tb testing.TB, sys *actor.ActorSystem) *Probe {
	tb.Helper()
	p := &Probe{Wait: probeTime, tb: tb, sys: sys, ended: make(chan struct{}), wake: make(chan struct{}, 1)}
	p.pid = sys.Root.Spawn(actor.PropsFromFunc(p.receive))
	tb.Cleanup(func() {
		sys.Root.Stop(p.pid)
		<-p.ended
	})
	return p
}

func (p *Probe) receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started, *actor.Stopping, *actor.Restarting:
		return
	case *actor.Stopped:
		close(p.ended)
		return
	}
	p.mu.Lock()
	p.queue = append(p.queue, letter{ctx.Message(), ctx.Sender()})
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// PID is the address of the probe, to be given to whoever shall write to it.
func (p *Probe) PID() *actor.PID { return p.pid }

// Send sends message to pid, with the probe as its sender.
func (p *Probe) Send(pid *actor.PID, message any) {
	p.sys.Root.RequestWithCustomSender(pid, message, p.pid)
}

// Reply sends message to the sender of the message that the last expectation
// returned; without one the test fails.
func (p *Probe) Reply(message any) {
	p.tb.Helper()
	p.mu.Lock()
	to := p.sender
	p.mu.Unlock()
	if to == nil {
		p.tb.Fatalf("probe: nobody to reply %T to: the last message had no sender", message)
	}
	p.Send(to, message)
}

// Watch asks for a *actor.Terminated at the end of pid; one that has ended already
// is told of at once.
func (p *Probe) Watch(pid *actor.PID) {
	process, _ := p.sys.ProcessRegistry.Get(pid) // that of dead letters, which answers, if there is none
	process.SendSystemMessage(pid, &actor.Watch{Watcher: p.pid})
}

// Expect waits for the next message, which must be a T for which all of match
// hold, and returns it.
func Expect[T any](p *Probe, match ...func(T) bool) T {
	p.tb.Helper()
	l, ok := p.next(p.Wait)
	if !ok {
		p.tb.Fatalf("probe: expected %s, got nothing within %s", typeName[T](), p.Wait)
	}
	m, ok := l.message.(T)
	switch {
	case !ok:
		p.tb.Fatalf("probe: expected %s, got %T %+v%s", typeName[T](), l.message, l.message, p.rest())
	case !all(m, match):
		p.tb.Fatalf("probe: expected another %s, got %+v%s", typeName[T](), l.message, p.rest())
	}
	return m
}

func all[T any](m T, match []func(T) bool) bool {
	return !slices.ContainsFunc(match, func(f func(T) bool) bool { return !f(m) })
}

// Fish waits for a T for which all of match hold, and throws away everything that
// comes before it.
func Fish[T any](p *Probe, match ...func(T) bool) T {
	p.tb.Helper()
	var thrown []string
	for deadline := time.Now().Add(p.Wait); ; {
		l, ok := p.next(time.Until(deadline))
		if !ok {
			p.tb.Fatalf("probe: fished %s for %s, got only [%s]", p.Wait, typeName[T](), strings.Join(thrown, ", "))
		}
		if m, ok := l.message.(T); ok && all(m, match) {
			return m
		}
		thrown = append(thrown, fmt.Sprintf("%T %+v", l.message, l.message))
	}
}

// ExpectNone fails the test if a message is there or comes within d. In a bubble
// d costs nothing.
func (p *Probe) ExpectNone(d time.Duration) {
	p.tb.Helper()
	if l, ok := p.next(d); ok {
		p.tb.Fatalf("probe: expected no message for %s, got %T %+v%s", d, l.message, l.message, p.rest())
	}
}

// pending returns the messages that have come and were not looked at.
func (p *Probe) pending() []any {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]any, len(p.queue))
	for i, l := range p.queue {
		out[i] = l.message
	}
	return out
}

// next takes the oldest message, waiting for it up to d.
func (p *Probe) next(d time.Duration) (letter, bool) {
	t := time.NewTimer(max(0, d))
	defer t.Stop()
	for {
		p.mu.Lock()
		if len(p.queue) > 0 {
			l := p.queue[0]
			p.queue = slices.Delete(p.queue, 0, 1)
			p.sender = l.sender
			p.mu.Unlock()
			return l, true
		}
		p.mu.Unlock()
		select {
		case <-p.wake:
		case <-t.C:
			p.mu.Lock()
			late := len(p.queue) > 0 // both at once
			p.mu.Unlock()
			if !late {
				return letter{}, false
			}
		}
	}
}

func (p *Probe) rest() string {
	if left := p.pending(); len(left) > 0 {
		return fmt.Sprintf("; after it came %+v", left)
	}
	return ""
}

func typeName[T any]() string { return reflect.TypeFor[T]().String() }
