package actors

import (
	"fmt"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/supervisor"
)

// invoker sees every message on its way from the mailbox to the actor. It runs
// in the mailbox's goroutine only.
type invoker struct {
	actor.MessageInvoker
	cell    *cell
	stopped bool
}

func (i *invoker) InvokeSystemMessage(message any) {
	switch message.(type) {
	case *actor.Stop:
		i.stopped = true
	case *actor.Restart:
		if i.stopped {
			i.cell.mu.Lock()
			i.cell.refused++
			i.cell.mu.Unlock()
			return
		}
	}
	i.MessageInvoker.InvokeSystemMessage(message)
}

// InvokeUserMessage tells of a panic that comes too late for its actor: the library
// drops what a stopped actor is sent.
func (i *invoker) InvokeUserMessage(message any) {
	if m, ok := message.(inject); ok && i.cell.snapshotState() == StateStopped {
		i.cell.oversight.d.logPanic(i.cell.path, "a goroutine panicked whose actor has ended", supervisor.NewCrash(m.reason, nil))
		return
	}
	i.MessageInvoker.InvokeUserMessage(message)
}

func (i *invoker) EscalateFailure(reason, message any) {
	if c, ok := i.cell.instance().(interface{ crashed() }); ok { // first, since it starts jobs no more
		c.crashed()
	}
	crash := supervisor.NewCrash(reason, debug.Stack())
	crash = supervisor.NewCrash(crash.Reason, crash.Stack) // raised now, in this incarnation, whenever it was made
	i.cell.fail(crash.Reason, crash.Stack)
	i.cell.set(StateCrashed)
	i.cell.publish(func(a ActorEvent) Event { return ActorCrashed{a, crash.Reason, crash.Stack} })
	i.cell.box.crash(func() { i.MessageInvoker.EscalateFailure(crash, message) })
}

// guard wraps one incarnation of an actor.
type guard struct {
	cell  *cell
	inner actor.Actor
	began uint64 // epoch of its start
}

func (g *guard) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		g.began = g.cell.oversight.d.nextEpoch()
		g.cell.begin()
		g.cell.oversight.begin()
	case *actor.Restarting:
		g.cell.set(StateRestarting)
		g.cell.oversight.end()
		defer g.swallow()
	case *actor.Stopping:
		g.cell.set(StateStopping)
		g.cell.oversight.end()
		defer g.swallow()
	case *actor.Stopped:
		g.cell.set(StateStopped)
		g.cell.publish(func(a ActorEvent) Event { return ActorStopped{a} })
		defer g.swallow()
	case inject:
		if m.at != 0 && m.at < g.began {
			g.answered(m)
			return
		}
		panic(m.reason)
	}
	g.inner.Receive(ctx)
}

// answered tells of a panic that was on its way to this actor when it restarted:
// that restart has answered it, and a second one would be for old news.
func (g *guard) answered(m inject) {
	crash := supervisor.NewCrash(m.reason, nil)
	g.cell.fail(crash.Reason, crash.Stack)
	g.cell.oversight.d.logPanic(g.cell.path, "a goroutine panicked before its actor restarted", crash)
}

// HandleFailure makes every supervisor ask its strategy through its oversight.
func (g *guard) HandleFailure(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, rs *actor.RestartStatistics, reason, message any) {
	g.cell.oversight.handle(sys, sup, child, rs, reason, message)
}

// swallow keeps a panic in a lifecycle message from hanging the parent.
func (g *guard) swallow() {
	if v := recover(); v != nil {
		crash := supervisor.NewCrash(v, debug.Stack())
		state := g.cell.snapshotState()
		g.cell.fail(fmt.Errorf("while %s: %w", state, crash.Reason), crash.Stack)
		g.cell.oversight.d.logPanic(g.cell.path, fmt.Sprintf("an actor panicked while %s", state), crash)
	}
}
