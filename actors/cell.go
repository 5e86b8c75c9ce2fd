package actors

import (
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/supervisor"
)

// cell is what the tree knows of one actor. It wraps the actor's mailbox,
// invoker and instance, which gives the live tree and cures defects of the actor
// library:
//   - a Restart that arrives after a Stop would revive a stopped actor: dropped;
//   - a message sent to a name that is just being spawned hits a mailbox without
//     a dispatcher: held until the mailbox starts;
//   - a panic in Stopping, Restarting or Stopped leaves the parent waiting for
//     ever: recovered and recorded;
//   - the stack of a panic is dropped: taken while it still reaches the frame;
//   - a restart ends a suspension that was ordered after it: ordered again.
type cell struct {
	path, role, capsule string
	depth               func() int
	box                 *mailbox
	events              *events
	oversight           *oversight
	order               uint64 // of its first start in the tree; kept by its successors

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
	ending      bool      // this incarnation has begun to restart or stop
	gaveUp      bool      // it has escalated
	until       time.Time // its restart, or its successor's start, is due then
	stuck       time.Time // its strategy has not returned since then
	stuckIn     string    // that strategy
	told        bool      // what was decided about its last failure was published
}

// props makes actors without children that have a cell in the tree.
func (d *Daemon) props(role, capsule string, producer func() actor.Actor, opts ...actor.PropsOption) *actor.Props {
	return d.supervisor(role, capsule, nil, func(*oversight) actor.Actor { return producer() }, opts...)
}

// supervisor makes actors that have a cell in the tree and children under
// strategy; nil means supervisor.Default.
func (d *Daemon) supervisor(role, capsule string, strategy actor.SupervisorStrategy, producer func(*oversight) actor.Actor, opts ...actor.PropsOption) *actor.Props {
	spawn := func(sys *actor.ActorSystem, id string, p *actor.Props, parent actor.SpawnerContext) (*actor.PID, error) {
		c := &cell{path: id, role: role, capsule: capsule, state: StateStarting, since: time.Now(), events: d.events}
		c.oversight = &oversight{d: d, cell: c, strategy: strategy}
		return actor.DefaultSpawner(sys, id, p.Clone(
			actor.WithSpawnFunc(nil),
			actor.WithProducer(func() actor.Actor {
				inner := producer(c.oversight)
				c.mu.Lock()
				c.inner = inner
				c.mu.Unlock()
				return &guard{cell: c, inner: inner}
			}),
			actor.WithMailbox(func() actor.Mailbox { return c.wrap(actor.Unbounded()()) }),
			actor.WithOnInit(func(actor.Context) { d.tree.add(c) }), // only if the name was won
		), parent)
	}
	return actor.PropsFromProducer(func() actor.Actor { return nil }, append(opts, actor.WithSpawnFunc(spawn))...)
}

func (c *cell) set(s State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.since = s, time.Now()
	c.ending = c.ending || s == StateRestarting || s == StateStopping
}

// giveUp notes that this actor, a supervisor, escalates.
func (c *cell) giveUp(crash *supervisor.Crash) {
	c.fail(crash.Reason, crash.Stack)
	c.set(StateCrashed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gaveUp = true
}

// isOver tells whether this incarnation, a supervisor, decides nothing any more.
func (c *cell) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending || c.gaveUp
}

// waits notes when the restart, or the successor's start, is due; zero if none
// is. c may be nil, as in the next two.
func (c *cell) waits(until time.Time) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = until
}

func (c *cell) tell(told bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = told
}

func (c *cell) isTold() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told
}

// born orders siblings by their first start.
func (c *cell) born() uint64 {
	if c == nil {
		return 0
	}
	return c.order
}

// suspend notes what the mailbox was told. An actor that is crashed and resumed
// runs again.
func (c *cell) suspend(on bool) {
	c.mu.Lock()
	c.box.suspended.Store(on)
	inner := c.inner
	resumed := !on && c.state == StateCrashed
	if resumed {
		c.state, c.since, c.until, c.gaveUp = StateRunning, time.Now(), time.Time{}, false
	}
	c.mu.Unlock()
	c.box.pause(inner, on)
	if resumed {
		c.publish(func(a ActorEvent) Event { return ActorResumed{a} })
	}
}

// begin notes that an incarnation has started.
func (c *cell) begin() {
	c.mu.Lock()
	if c.state != StateStarting {
		c.restarts++
	}
	c.state, c.since = StateRunning, time.Now()
	c.ending, c.gaveUp = false, false
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

// instance is the actor of this incarnation.
func (c *cell) instance() actor.Actor {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inner
}

func (c *cell) snapshotState() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}
