package actors

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/supervisor"
)

// cell is what the tree knows of one actor. It wraps the actor's mailbox,
// invoker and instance, which gives the live tree and cures four defects of the
// actor library:
//   - a Restart that arrives after a Stop would revive a stopped actor: dropped;
//   - a message sent to a name that is just being spawned hits a mailbox without
//     a dispatcher: held until the mailbox starts;
//   - a panic in Stopping, Restarting or Stopped leaves the parent waiting for
//     ever: recovered and recorded;
//   - the stack of a panic is dropped: taken while it still reaches the frame.
type cell struct {
	path, role, capsule string
	depth               func() int
	box                 *mailbox
	events              *events

	mu          sync.Mutex
	inner       actor.Actor // of this incarnation
	state       State
	restarts    int
	failures    int
	lastFailure error
	lastStack   []byte
	refused     int // restarts after a stop
	early       int // messages held before the start
	since       time.Time
}

// props wraps p so that every actor spawned from it has a cell in the tree.
func (d *Daemon) props(role, capsule string, producer func() actor.Actor, opts ...actor.PropsOption) *actor.Props {
	spawn := func(sys *actor.ActorSystem, id string, p *actor.Props, parent actor.SpawnerContext) (*actor.PID, error) {
		c := &cell{path: id, role: role, capsule: capsule, state: StateStarting, since: time.Now(), events: d.events}
		return actor.DefaultSpawner(sys, id, p.Clone(
			actor.WithSpawnFunc(nil),
			actor.WithProducer(func() actor.Actor {
				inner := producer()
				c.mu.Lock()
				c.inner = inner
				c.mu.Unlock()
				return &guard{cell: c, inner: inner}
			}),
			actor.WithMailbox(func() actor.Mailbox { return c.wrap(actor.Unbounded()()) }),
			actor.WithOnInit(func(actor.Context) { d.tree.add(c) }), // only if the name was won
		), parent)
	}
	return actor.PropsFromProducer(producer, append(opts, actor.WithSpawnFunc(spawn))...)
}

func (c *cell) set(s State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.since = s, time.Now()
}

// begin notes that an incarnation has started.
func (c *cell) begin() {
	c.mu.Lock()
	if c.state != StateStarting {
		c.restarts++
	}
	c.state, c.since = StateRunning, time.Now()
	n := c.restarts
	c.mu.Unlock()
	c.publish(func(a ActorEvent) Event {
		if n > 0 {
			return ActorRestarted{a, n}
		}
		return ActorStarted{a}
	})
}

func (c *cell) publish(make func(ActorEvent) Event) {
	if c.events.wanted.Load() {
		c.events.publish(make(ActorEvent{At: time.Now(), Path: c.path, Role: c.role}))
	}
}

func (c *cell) fail(err error, stack []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures++
	c.lastFailure, c.lastStack = err, stack
}

func (c *cell) wrap(inner actor.Mailbox) actor.Mailbox {
	c.box = &mailbox{Mailbox: inner, cell: c}
	c.depth = c.box.depth
	return c.box
}

// mailbox holds every post until Start, and user messages while gated (see
// Daemon.Hold).
type mailbox struct {
	actor.Mailbox
	cell *cell

	open    atomic.Bool  // started and not gated
	kept    atomic.Int64 // user messages in held
	mu      sync.Mutex
	started bool
	gated   bool
	held    []post
}

type post struct {
	message any
	system  bool
}

func (m *mailbox) RegisterHandlers(inv actor.MessageInvoker, d actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(&invoker{MessageInvoker: inv, cell: m.cell}, d)
}

func (m *mailbox) PostUserMessage(message any) {
	if m.open.Load() || !m.hold(post{message, false}) {
		m.Mailbox.PostUserMessage(message)
	}
}

func (m *mailbox) PostSystemMessage(message any) {
	if m.open.Load() || !m.hold(post{message, true}) {
		m.Mailbox.PostSystemMessage(message)
	}
}

func (m *mailbox) hold(p post) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open.Load() || m.started && p.passes() {
		return false
	}
	if _, ok := p.message.(*actor.Started); ok {
		m.held = append([]post{p}, m.held...) // first, whatever came early
		return true
	}
	m.held = append(m.held, p)
	if !p.system {
		m.kept.Add(1)
	}
	if m.started {
		return true
	}
	m.cell.mu.Lock()
	m.cell.early++
	m.cell.mu.Unlock()
	return true
}

func (m *mailbox) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Mailbox.Start()
	m.started = true
	m.flush()
}

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

func (i *invoker) EscalateFailure(reason, message any) {
	crash := supervisor.NewCrash(reason, debug.Stack())
	i.cell.fail(crash.Reason, crash.Stack)
	i.cell.set(StateCrashed)
	i.cell.publish(func(a ActorEvent) Event { return ActorCrashed{a, crash.Reason, crash.Stack} })
	i.cell.mu.Lock()
	inner := i.cell.inner
	i.cell.mu.Unlock()
	if c, ok := inner.(interface{ crashed() }); ok {
		c.crashed()
	}
	i.MessageInvoker.EscalateFailure(crash, message)
}

// guard wraps one incarnation of an actor.
type guard struct {
	cell  *cell
	inner actor.Actor
}

func (g *guard) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		g.cell.begin()
	case *actor.Restarting:
		g.cell.set(StateRestarting)
		defer g.swallow()
	case *actor.Stopping:
		g.cell.set(StateStopping)
		defer g.swallow()
	case *actor.Stopped:
		g.cell.set(StateStopped)
		g.cell.publish(func(a ActorEvent) Event { return ActorStopped{a} })
		defer g.swallow()
	case inject:
		panic(m.reason)
	}
	g.inner.Receive(ctx)
}

// swallow keeps a panic in a lifecycle message from hanging the parent.
func (g *guard) swallow() {
	if v := recover(); v != nil {
		crash := supervisor.NewCrash(v, debug.Stack())
		g.cell.fail(fmt.Errorf("while %s: %w", g.cell.snapshotState(), crash.Reason), crash.Stack)
	}
}

func (c *cell) snapshotState() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}
