package supervised

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/strategy"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/supervisor"
)

// node is what the system knows of one actor. It wraps the actor's mailbox,
// invoker and instance, which gives the live tree and works around defects of the actor
// library:
//   - A Restart that arrives after a Stop would revive a stopped actor. It is dropped.
//   - A message to a name that is just being spawned hits a mailbox without
//     a dispatcher. It is held until the mailbox starts.
//   - A panic in Stopping, Restarting or Stopped leaves the parent waiting for
//     ever. It is recovered and recorded.
//   - The stack of a panic is dropped. It is taken while it still reaches the frame.
//   - A restart ends a suspension that was ordered after it. That is ordered again.
type node struct {
	path, role, capsule string
	depth               func() int
	box                 *Mailbox
	proxy               *Proxy
	order               uint64 // of its first start in the tree; kept by its replacements

	mu          sync.Mutex
	inner       actor.Actor // of this incarnation
	state       tree.State
	restarts    int
	failures    int
	lastFailure error
	since       time.Time
	ending      bool      // this incarnation has begun to restart or stop
	gaveUp      bool      // it has escalated
	until       time.Time // its restart, or its replacement's start, is due then
	stuck       time.Time // its strategy has not returned since then
	stuckIn     string    // that strategy
	published   bool      // what was decided about its last failure was published
	kept        time.Time // it gets no messages since then: held or suspended

	moved atomic.Int64 // when its mailbox has moved last, since the system began: see moves
}

// Props makes actors without children.
func (s *System) Props(role, capsule string, producer func() actor.Actor, opts ...actor.PropsOption) *actor.Props {
	return s.SupervisorProps(role, capsule, nil, func(*Proxy) actor.Actor { return producer() }, opts...)
}

// SupervisorProps makes actors that have children under a strategy; nil means
// supervisor.Default.
func (s *System) SupervisorProps(role, capsule string, under *supervisor.Strategy, producer func(*Proxy) actor.Actor, opts ...actor.PropsOption) *actor.Props {
	spawn := func(sys *actor.ActorSystem, id string, p *actor.Props, parent actor.SpawnerContext) (*actor.PID, error) {
		c := &node{path: id, role: role, capsule: capsule, state: tree.StateStarting, since: time.Now()}
		c.proxy = &Proxy{s: s, node: c}
		if under != nil {
			c.proxy.strategy = strategy.New(under)
		}
		return actor.DefaultSpawner(sys, id, p.Clone(
			actor.WithSpawnFunc(nil),
			actor.WithProducer(func() actor.Actor {
				inner := producer(c.proxy)
				c.mu.Lock()
				c.inner = inner
				c.mu.Unlock()
				return &guard{node: c, inner: inner}
			}),
			actor.WithMailbox(func() actor.Mailbox { return c.wrap(actor.Unbounded()()) }),
			actor.WithOnInit(func(actor.Context) { s.add(c) }), // only if the name was won
		), parent)
	}
	return actor.PropsFromProducer(func() actor.Actor { return nil }, append(opts, actor.WithSpawnFunc(spawn))...)
}

func (c *node) set(s tree.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.since = s, time.Now()
	c.ending = c.ending || s == tree.StateRestarting || s == tree.StateStopping
}

// giveUp notes that this actor, a supervisor, escalates.
func (c *node) giveUp(crash *supervisor.Crash) {
	c.fail(crash.Reason)
	c.set(tree.StateCrashed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gaveUp = true
}

// isOver tells whether this incarnation, a supervisor, decides nothing any more.
func (c *node) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending || c.gaveUp
}

// waits notes when the restart, or the start of the replacement, is due; zero if none
// is. c may be nil here, in setPublished and in isPublished.
func (c *node) waits(until time.Time) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = until
}

func (c *node) setPublished(on bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.published = on
}

func (c *node) isPublished() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.published
}

// born orders siblings by their first start.
func (c *node) born() uint64 {
	if c == nil {
		return 0
	}
	return c.order
}

// suspend notes what the mailbox was told. An actor that is crashed and resumed
// runs again.
func (c *node) suspend(on bool) {
	c.mu.Lock()
	c.box.suspended.Store(on)
	c.keepsLocked()
	inner := c.inner
	resumed := !on && c.state == tree.StateCrashed
	if resumed {
		c.state, c.since, c.until, c.gaveUp = tree.StateRunning, time.Now(), time.Time{}, false
	}
	c.mu.Unlock()
	c.box.pause(inner, on)
	if resumed {
		c.publish(event.ActorResumed{ActorEvent: c.now()})
	}
}

// begin notes that an incarnation has started.
func (c *node) begin() {
	c.mu.Lock()
	if c.state != tree.StateStarting {
		c.restarts++
	}
	c.state, c.since = tree.StateRunning, time.Now()
	c.ending, c.gaveUp = false, false
	n := c.restarts
	c.mu.Unlock()
	if n > 0 {
		c.publish(event.ActorRestarted{ActorEvent: c.now(), Restarts: n})
		return
	}
	c.publish(event.ActorStarted{ActorEvent: c.now()})
}

// now is what an event of this actor and of now carries.
func (c *node) now() event.ActorEvent {
	return event.ActorEvent{At: time.Now(), Path: c.path, Role: c.role}
}

func (c *node) publish(e event.Event) { c.proxy.s.publish(e) }

func (c *node) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures++
	c.lastFailure = err
}

// instance is the actor of this incarnation.
func (c *node) instance() actor.Actor {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inner
}

func (c *node) snapshotState() tree.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}
