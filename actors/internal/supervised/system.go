// Package supervised is what stands between the actors of a daemon and the actor
// library: mailboxes that hold and suspend, a proxy for each strategy, which is the
// user's code and runs in a goroutine of its own, the restarts and replacements that it
// orders, goroutines that belong to an actor, and the state of each actor for the tree.
package supervised

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors/internal/strategy"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/supervisor"
)

// System is an actor system with the state of its actors. All methods are safe for
// concurrent use.
type System struct {
	Goroutines *Tracker // those of Spawn

	log      zerolog.Logger
	identity string // of the process, for simulations
	root     string // path of the actor that supervises all others
	publish  func(event.Event)
	began    time.Time
	actors   atomic.Pointer[actor.ActorSystem] // nil before Begin
	epochs   atomic.Uint64

	mu    sync.Mutex
	nodes map[string]*node // by path; a name that is spawned again replaces its node
	added uint64
}

// New makes a System without an actor system. root is the path of the actor that
// supervises all others; publish is called with each Event, must not block, and may be
// called from any goroutine.
func New(log zerolog.Logger, identity, root string, publish func(event.Event)) *System {
	return &System{
		Goroutines: NewTracker(), log: log, identity: identity, root: root, publish: publish, began: time.Now(), nodes: map[string]*node{},
	}
}

// Begin makes the actor system.
func (s *System) Begin() {
	sys := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
		actor.WithDeadLetterThrottleInterval(20*time.Millisecond),
	)
	sys.EventStream.Subscribe(s.onEvent)
	s.actors.Store(sys)
}

// Actors is the actor system; nil before Begin.
func (s *System) Actors() *actor.ActorSystem { return s.actors.Load() }

// Root is the context that spawns the first actor, and sends from outside of actors.
func (s *System) Root() *actor.RootContext { return s.actors.Load().Root }

// PID is that of the actor at path, whether there is one or not.
func (s *System) PID(path string) *actor.PID { return actor.NewPID(s.actors.Load().Address(), path) }

// Send sends m to the actor at path.
func (s *System) Send(path string, m any) { s.Root().Send(s.PID(path), m) }

// NextEpoch numbers moments: a later one has a larger number.
func (s *System) NextEpoch() uint64 { return s.epochs.Add(1) }

// Mailbox returns the mailbox of the actor at path, nil if there is no such actor (yet).
func (s *System) Mailbox(path string) *Mailbox {
	if c := s.find(path); c != nil {
		return c.box
	}
	return nil
}

// LastFailure is that of the actor at path; nil if there is none.
func (s *System) LastFailure(path string) error {
	c := s.find(path)
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastFailure
}

// CancelReplacements notes that no child of the supervisor at path, which ends, is
// replaced any more.
func (s *System) CancelReplacements(path string) {
	for _, c := range s.all() {
		if parent, _ := SplitPath(c.path); parent == path {
			c.waits(time.Time{})
		}
	}
}

// Child spawns a child of the actor of ctx; a failure is a bug of ours and crashes the
// parent.
func Child(ctx actor.Context, p *actor.Props, name string) *actor.PID {
	pid, err := ctx.SpawnNamed(p, name)
	if err != nil {
		panic(errors.Join(errors.New("spawn "+ctx.Self().GetId()+"/"+name), err))
	}
	return pid
}

// find returns the node at path, nil if there is none.
func (s *System) find(path string) *node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[path]
}

// add puts c into the tree. It keeps the count of restarts and the place of the one that
// it replaces.
func (s *System) add(c *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.added++
	c.order = s.added
	if old := s.nodes[c.path]; old != nil {
		c.order = old.order
		old.mu.Lock()
		c.restarts, c.failures = old.restarts+1, old.failures
		c.lastFailure = old.lastFailure
		old.mu.Unlock()
	}
	s.nodes[c.path] = c
}

func (s *System) all() []*node {
	s.mu.Lock()
	defer s.mu.Unlock()
	cs := make([]*node, 0, len(s.nodes))
	for _, c := range s.nodes {
		cs = append(cs, c)
	}
	return cs
}

// onEvent hears what strategies decide. It is called inline, so it must neither
// block nor panic.
func (s *System) onEvent(e any) {
	switch e := e.(type) {
	case *actor.SupervisorEvent:
		s.onDecision(e)
	case *actor.DeadLetterEvent:
		if m, ok := e.Message.(Crash); ok {
			s.logPanic(e.PID.GetId(), "a goroutine panicked whose actor has ended", supervisor.NewCrash(m.Reason, nil))
		}
	case *strategy.Waiting:
		s.find(e.Child.GetId()).waits(e.Until)
	case *strategy.Overruled:
		parent, _ := SplitPath(e.Child.GetId())
		if c := s.find(parent); c != nil {
			s.overruled(c, "decider", e.Err)
		}
	}
}
