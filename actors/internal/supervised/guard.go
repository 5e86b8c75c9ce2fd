package supervised

import (
	"fmt"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/supervisor"
)

// invoker sees every message on its way from the mailbox to the actor. It runs
// in the mailbox's goroutine only.
type invoker struct {
	actor.MessageInvoker
	node    *node
	stopped bool
}

func (i *invoker) InvokeSystemMessage(message any) {
	switch message.(type) {
	case *actor.Stop:
		i.stopped = true
	case *actor.Restart:
		if i.stopped {
			return
		}
	}
	i.MessageInvoker.InvokeSystemMessage(message)
}

// InvokeUserMessage tells of a panic that comes too late for its actor: the library
// drops what a stopped actor is sent.
func (i *invoker) InvokeUserMessage(message any) {
	i.node.moves()
	if m, ok := message.(Crash); ok && i.node.snapshotState() == tree.StateStopped {
		i.node.proxy.s.logPanic(i.node.path, "a goroutine panicked whose actor has ended", supervisor.NewCrash(m.Reason, nil))
		return
	}
	i.MessageInvoker.InvokeUserMessage(message)
}

func (i *invoker) EscalateFailure(reason, message any) {
	if c, ok := i.node.instance().(interface{ Crashed() }); ok { // first, since it starts jobs no more
		c.Crashed()
	}
	crash := supervisor.NewCrash(reason, debug.Stack())
	crash = supervisor.NewCrash(crash.Reason, crash.Stack) // raised now, in this incarnation, whenever it was made
	i.node.fail(crash.Reason)
	i.node.set(tree.StateCrashed)
	i.node.publish(event.ActorCrashed{ActorEvent: i.node.now(), Err: crash.Reason, Stack: crash.Stack})
	i.node.box.crash(func() { i.MessageInvoker.EscalateFailure(crash, message) })
}

// guard wraps one incarnation of an actor.
type guard struct {
	node  *node
	inner actor.Actor
	began uint64 // epoch of its start
}

func (g *guard) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		g.began = g.node.proxy.s.NextEpoch()
		g.node.begin()
		g.node.proxy.begin()
	case *actor.Restarting:
		g.node.set(tree.StateRestarting)
		g.node.proxy.end()
		defer g.swallow()
	case *actor.Stopping:
		g.node.set(tree.StateStopping)
		g.node.proxy.end()
		defer g.swallow()
	case *actor.Stopped:
		g.node.set(tree.StateStopped)
		g.node.publish(event.ActorStopped{ActorEvent: g.node.now()})
		defer g.swallow()
	case Crash:
		if m.at != 0 && m.at < g.began {
			g.answered(m)
			return
		}
		panic(m.Reason)
	}
	g.inner.Receive(ctx)
}

// answered tells of a panic that was on its way to this actor when it restarted:
// that restart has answered it, and a second one would be for old news.
func (g *guard) answered(m Crash) {
	crash := supervisor.NewCrash(m.Reason, nil)
	g.node.fail(crash.Reason)
	g.node.proxy.s.logPanic(g.node.path, "a goroutine panicked before its actor restarted", crash)
}

// HandleFailure makes every supervisor ask its strategy through its Proxy.
func (g *guard) HandleFailure(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, rs *actor.RestartStatistics, reason, message any) {
	g.node.proxy.handle(sys, sup, child, rs, reason, message)
}

// swallow keeps a panic in a lifecycle message from hanging the parent.
func (g *guard) swallow() {
	if v := recover(); v != nil {
		crash := supervisor.NewCrash(v, debug.Stack())
		state := g.node.snapshotState()
		g.node.fail(fmt.Errorf("while %s: %w", state, crash.Reason))
		g.node.proxy.s.logPanic(g.node.path, fmt.Sprintf("an actor panicked while %s", state), crash)
	}
}
