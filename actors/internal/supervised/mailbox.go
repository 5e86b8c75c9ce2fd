package supervised

import (
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/tree"
)

func (c *node) wrap(inner actor.Mailbox) actor.Mailbox {
	c.box = &Mailbox{Mailbox: inner, node: c}
	c.depth = c.box.depth
	return c.box
}

// Mailbox holds every post until Start, and user messages while gated (see System.Hold).
type Mailbox struct {
	actor.Mailbox
	node *node

	open atomic.Bool  // started and not gated
	kept atomic.Int64 // user messages in held

	// At the end of a restart the actor library sends a message to the actor itself. That message
	// would end any suspension, also one that was ordered after the restart and is for the next incarnation.
	suspended atomic.Bool
	pausing   sync.Mutex
	paused    bool        // somebody, not a crash, suspends the actor since its last Restart was sent
	crashing  atomic.Bool // the next suspension is that of a crash

	mu      sync.Mutex
	started bool
	gated   atomic.Bool // by Hold; written with mu held
	held    []post
}

type post struct {
	message any
	system  bool
}

// RegisterHandlers implements actor.Mailbox.
func (m *Mailbox) RegisterHandlers(inv actor.MessageInvoker, d actor.Dispatcher) {
	if osproc.TurnHook != nil {
		d = turns{d, m.node}
	}
	m.Mailbox.RegisterHandlers(&invoker{MessageInvoker: inv, node: m.node}, d)
}

// turns is the dispatcher of a simulation.
type turns struct {
	actor.Dispatcher
	node *node
}

func (t turns) Schedule(f func()) {
	osproc.TurnHook(t.node.proxy.s.identity, "mailbox of "+t.node.path, f)
}

// PostUserMessage implements actor.Mailbox.
func (m *Mailbox) PostUserMessage(message any) {
	if m.depth() == 0 {
		m.node.moves()
	}
	if m.open.Load() || !m.hold(post{message, false}) {
		m.Mailbox.PostUserMessage(message)
	}
}

// PostSystemMessage implements actor.Mailbox.
func (m *Mailbox) PostSystemMessage(message any) {
	switch message.(type) {
	case *actor.Restart, *actor.SuspendMailbox, *actor.ResumeMailbox:
		m.pausing.Lock()
		defer m.pausing.Unlock()
	}
	m.post(message)
	switch message.(type) {
	case *actor.Restart:
		m.paused = false
	case *actor.SuspendMailbox:
		if !m.crashing.CompareAndSwap(true, false) {
			m.paused = true
		}
		m.node.suspend(true)
	case *actor.ResumeMailbox:
		if m.paused && m.node.snapshotState() == tree.StateRestarting { // by the restart itself
			m.post(&actor.SuspendMailbox{})
			return
		}
		m.paused = false
		m.node.suspend(false)
	}
}

func (m *Mailbox) post(message any) {
	if m.open.Load() || !m.hold(post{message, true}) {
		m.Mailbox.PostSystemMessage(message)
	}
}

func (m *Mailbox) hold(p post) bool {
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
	return true
}

// Start implements actor.Mailbox.
func (m *Mailbox) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Mailbox.Start()
	m.started = true
	m.flushLocked()
}

// crash runs escalate, which suspends the actor, once, because it has crashed. While it
// runs its supervisor may already have decided, and suspended the actor, too.
func (m *Mailbox) crash(escalate func()) {
	m.crashing.Store(true)
	defer m.crashing.Store(false)
	escalate()
}

// holdBack closes the gate. A mailbox that has not started holds anyway, and
// stays closed when it does.
func (m *Mailbox) holdBack() {
	m.mu.Lock()
	m.gated.Store(true)
	m.open.Store(false)
	m.mu.Unlock()
	m.pause(m.node.gateMoved(), true)
}

func (m *Mailbox) letPass() {
	m.mu.Lock()
	m.gated.Store(false)
	if m.started {
		m.flushLocked()
	} // else Start does
	m.mu.Unlock()
	m.pause(m.node.gateMoved(), false)
}

// pause tells an actor that owns a goroutine that it gets no messages from now on, or
// has it look what is to be done when it gets them again.
func (m *Mailbox) pause(inner actor.Actor, on bool) {
	owner, ok := inner.(interface{ Paused() })
	switch {
	case !ok:
	case on:
		owner.Paused()
	default:
		m.Wake()
	}
}

// passes tells whether p passes a Hold.
func (p post) passes() bool {
	_, crash := p.message.(Crash)
	return p.system || crash
}

// flushLocked posts the messages that were held, except those that a Hold still keeps. Then it opens the
// mailbox if no Hold is left. Messages that are posted meanwhile come after these.
func (m *Mailbox) flushLocked() {
	var kept []post
	for _, p := range m.held {
		switch {
		case m.gated.Load() && !p.passes():
			kept = append(kept, p)
		case p.system:
			m.Mailbox.PostSystemMessage(p.message)
		default:
			m.Mailbox.PostUserMessage(p.message)
		}
	}
	m.held = kept
	m.kept.Store(int64(len(kept)))
	m.open.Store(!m.gated.Load())
}

// Wake posts a Wake, which a stopped actor ignores. Locks may be held, since it runs no code of
// others; a message to a PID that is gone would. A nil Mailbox is
// that of an actor that has not started yet, and looks when it starts.
func (m *Mailbox) Wake() {
	if m != nil {
		m.PostUserMessage(Wake{})
	}
}

// depth counts the user messages that wait, held ones included.
func (m *Mailbox) depth() int { return m.Mailbox.UserMessageCount() + int(m.kept.Load()) }

// Keeps tells whether the actor gets no messages now: held or suspended. It is false
// while the mailbox opens: the first message is taken before that is done.
func (m *Mailbox) Keeps() bool { return m != nil && (m.gated.Load() || m.suspended.Load()) }
