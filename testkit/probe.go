package testkit

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
)

// probeTime is how long a probe waits for a message unless told otherwise.
const probeTime = 10 * time.Second

// NewSystem returns a silent actor system for a test's own actors.
func NewSystem(tb testing.TB) *actor.ActorSystem {
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

// TestProbe is an actor that records what it is sent and a test that asks about
// it, message by message in the order of arrival. It works in real time and in a
// bubble. Its Expect methods wait and fail the test, so they belong to the test's
// goroutine: never call them inside an actor, where t.FailNow would end the
// mailbox for good.
type TestProbe struct {
	// Wait is how long each expectation waits; 10 s at first.
	Wait time.Duration

	tb    testing.TB
	sys   *actor.ActorSystem
	pid   *actor.PID
	ended chan struct{}

	mu     sync.Mutex
	queue  []letter
	bell   chan struct{} // holds a token after an arrival
	sender *actor.PID    // of the message looked at last
}

type letter struct {
	message any
	sender  *actor.PID
}

// NewProbe starts a probe in sys and stops it at the end of the test.
func NewProbe(tb testing.TB, sys *actor.ActorSystem) *TestProbe {
	tb.Helper()
	p := &TestProbe{Wait: probeTime, tb: tb, sys: sys, ended: make(chan struct{}), bell: make(chan struct{}, 1)}
	p.pid = sys.Root.Spawn(actor.PropsFromFunc(p.receive))
	tb.Cleanup(func() {
		sys.Root.Stop(p.pid)
		<-p.ended
	})
	return p
}

// Probe starts a probe in the daemon's own system, to watch its actors; see PID.
func (k *Kit) Probe() *TestProbe {
	k.tb.Helper()
	return NewProbe(k.tb, k.ActorSystem())
}

// PID names the actor at path in the daemon's system.
func (k *Kit) PID(path string) *actor.PID { return actor.NewPID(k.ActorSystem().Address(), path) }

func (p *TestProbe) receive(ctx actor.Context) {
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
	case p.bell <- struct{}{}:
	default:
	}
}

// PID is the address of the probe, to be given to whoever shall write to it.
func (p *TestProbe) PID() *actor.PID { return p.pid }

// Send sends message to pid, with the probe as its sender.
func (p *TestProbe) Send(pid *actor.PID, message any) {
	p.sys.Root.RequestWithCustomSender(pid, message, p.pid)
}

// Reply sends message to the sender of the message that the last expectation
// returned; without one the test fails.
func (p *TestProbe) Reply(message any) {
	p.tb.Helper()
	p.mu.Lock()
	to := p.sender
	p.mu.Unlock()
	if to == nil {
		p.tb.Fatalf("probe: nobody to reply %T to: the last message had no sender", message)
	}
	p.Send(to, message)
}

// Watch asks to be told of the end of pid; see ExpectTerminated. One that has
// ended already is told of at once.
func (p *TestProbe) Watch(pid *actor.PID) {
	process, _ := p.sys.ProcessRegistry.Get(pid) // that of dead letters, which answers, if there is none
	process.SendSystemMessage(pid, &actor.Watch{Watcher: p.pid})
}

// ExpectTerminated waits for the end of pid, which must be the next message.
func (p *TestProbe) ExpectTerminated(pid *actor.PID) {
	p.tb.Helper()
	p.ExpectMsgMatching("the end of "+pid.GetId(), func(m any) bool {
		t, ok := m.(*actor.Terminated)
		return ok && t.Who.GetId() == pid.GetId()
	})
}

// ExpectMsg waits for the next message, which must be a T, and returns it.
func ExpectMsg[T any](p *TestProbe) T {
	p.tb.Helper()
	message := p.ExpectMsgMatching(typeName[T](), func(m any) bool { _, ok := m.(T); return ok })
	m, _ := message.(T)
	return m
}

// ExpectMsgMatching waits for the next message, for which match must hold, and
// returns it; what says in words what is expected.
func (p *TestProbe) ExpectMsgMatching(what string, match func(message any) bool) any {
	p.tb.Helper()
	l, ok := p.next(p.Wait)
	if !ok {
		p.tb.Fatalf("probe: expected %s, got nothing within %s", what, p.Wait)
	}
	if !match(l.message) {
		p.tb.Fatalf("probe: expected %s, got %T %+v%s", what, l.message, l.message, p.rest())
	}
	return l.message
}

// FishForMessage waits for a T for which match holds (nil: any T), throwing away
// everything that comes before it.
func FishForMessage[T any](p *TestProbe, match func(T) bool) T {
	p.tb.Helper()
	var thrown []string
	for deadline := time.Now().Add(p.Wait); ; {
		l, ok := p.next(time.Until(deadline))
		if !ok {
			p.tb.Fatalf("probe: fished %s for %s, got only [%s]", p.Wait, typeName[T](), strings.Join(thrown, ", "))
		}
		if m, ok := l.message.(T); ok && (match == nil || match(m)) {
			return m
		}
		thrown = append(thrown, fmt.Sprintf("%T %+v", l.message, l.message))
	}
}

// ExpectNoMsg fails the test if a message is there or comes within d. In a bubble
// d costs nothing.
func (p *TestProbe) ExpectNoMsg(d time.Duration) {
	p.tb.Helper()
	if l, ok := p.next(d); ok {
		p.tb.Fatalf("probe: expected no message for %s, got %T %+v%s", d, l.message, l.message, p.rest())
	}
}

// Pending returns the messages that have come and were not looked at.
func (p *TestProbe) Pending() []any {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]any, len(p.queue))
	for i, l := range p.queue {
		out[i] = l.message
	}
	return out
}

// next takes the oldest message, waiting for it up to d.
func (p *TestProbe) next(d time.Duration) (letter, bool) {
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
		case <-p.bell:
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

func (p *TestProbe) rest() string {
	if pending := p.Pending(); len(pending) > 0 {
		return fmt.Sprintf("; after it came %+v", pending)
	}
	return ""
}

func typeName[T any]() string { return reflect.TypeFor[T]().String() }
