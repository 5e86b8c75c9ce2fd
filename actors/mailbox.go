package actors

import (
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/turn"
)

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

	open atomic.Bool  // started and not gated
	kept atomic.Int64 // user messages in held

	// A restart ends with a message to itself that ends any suspension, also one
	// that was ordered after the restart, and means the actor's next life.
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

func (m *mailbox) RegisterHandlers(inv actor.MessageInvoker, d actor.Dispatcher) {
	if turn.Hook != nil {
		d = turns{d, m.cell}
	}
	m.Mailbox.RegisterHandlers(&invoker{MessageInvoker: inv, cell: m.cell}, d)
}

// turns is the dispatcher of a simulation.
type turns struct {
	actor.Dispatcher
	cell *cell
}

func (t turns) Schedule(f func()) {
	turn.Hook(t.cell.oversight.d.identity, "mailbox of "+t.cell.path, f)
}

func (m *mailbox) PostUserMessage(message any) {
	if m.open.Load() || !m.hold(post{message, false}) {
		m.Mailbox.PostUserMessage(message)
	}
}

func (m *mailbox) PostSystemMessage(message any) {
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
		m.cell.suspend(true)
	case *actor.ResumeMailbox:
		if m.paused && m.cell.snapshotState() == StateRestarting { // by the restart itself
			m.post(&actor.SuspendMailbox{})
			return
		}
		m.paused = false
		m.cell.suspend(false)
	}
}

func (m *mailbox) post(message any) {
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

// crash runs escalate, which suspends the actor, once, because it has crashed. While it
// runs its supervisor may already have decided, and suspended the actor, too.
func (m *mailbox) crash(escalate func()) {
	m.crashing.Store(true)
	defer m.crashing.Store(false)
	escalate()
}

// holdBack closes the gate. A mailbox that has not started holds anyway, and
// stays closed when it does.
func (m *mailbox) holdBack() {
	m.mu.Lock()
	m.gated.Store(true)
	m.open.Store(false)
	m.mu.Unlock()
	m.pause(m.cell.instance(), true)
}

func (m *mailbox) letPass() {
	m.mu.Lock()
	m.gated.Store(false)
	if m.started {
		m.flush()
	} // else Start does
	m.mu.Unlock()
	m.pause(m.cell.instance(), false)
}

// pause tells an actor that owns a goroutine that it gets no messages from now on, or
// has it look what is to be done when it gets them again.
func (m *mailbox) pause(inner actor.Actor, on bool) {
	owner, ok := inner.(interface{ paused() })
	switch {
	case !ok:
	case on:
		owner.paused()
	default:
		m.ring()
	}
}

// passes tells whether p passes a Hold.
func (p post) passes() bool {
	_, crash := p.message.(inject)
	return p.system || crash
}

// flush posts what was held, but for what a Hold still keeps, then opens if
// there is none; m.mu is held, so that what is posted meanwhile comes after it.
func (m *mailbox) flush() {
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

// ring posts a doorbell, of which a stopped actor takes no notice. It runs nobody
// else's code, as a message to a PID does that is gone: locks may be held. A nil
// mailbox is that of an actor that has not started yet, and looks when it does.
func (m *mailbox) ring() {
	if m != nil {
		m.PostUserMessage(wake{})
	}
}

// depth counts the user messages that wait, held ones included.
func (m *mailbox) depth() int { return m.Mailbox.UserMessageCount() + int(m.kept.Load()) }

// keeps tells whether the actor gets no messages now: held or suspended.
func (m *mailbox) keeps() bool { return m != nil && (!m.open.Load() || m.suspended.Load()) }
