package actors

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/event"
)

// manager supervises the fetcher and the processors of one capsule. A restart
// of it stops and respawns them all; jobs that run meanwhile go on and are
// adopted by the next processor of their slot, so that there are never more than
// Concurrency at once.
type manager struct {
	c        *capsule
	stopping bool // Restarting or Stopping: children end because we do
	passedOn bool // quiet was passed on
	alive    int  // processors, those included that are being replaced
	next     *supervised.Replacements
}

func newManager(c *capsule, o *supervised.Proxy) *manager {
	m := &manager{c: c}
	m.next = supervised.NewReplacements(o, m.child)
	return m
}

func (m *manager) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		m.start(ctx)
	case quiet, supervised.Wake:
		m.tellQuiet(ctx)
	case resized:
		m.resize(ctx)
	case supervised.Due:
		if !m.c.isQuiet() {
			m.next.On(ctx, msg)
		}
	case *actor.Restarting, *actor.Stopping:
		m.stopping = true
		m.next.Stop()
	case *actor.Terminated:
		if !m.stopping {
			m.ended(ctx, msg.Who.GetId())
		}
	}
}

func (m *manager) start(ctx actor.Context) {
	c := m.c
	quieting := c.isQuiet()
	for _, s := range c.pool.needed() {
		m.process(ctx, s)
		m.alive++
	}
	if !quieting {
		m.child(ctx, "fetcher")
	}
	c.announce.Do(c.up)
	m.tellQuiet(ctx)
}

// resize starts the processors that are lacking; the others look whether they are needed.
func (m *manager) resize(ctx actor.Context) {
	there := map[string]bool{} // also those that are about to end, which come back when they have
	for _, pid := range ctx.Children() {
		there[pid.GetId()] = true
		ctx.Send(pid, supervised.Wake{})
	}
	for _, s := range m.c.pool.lacking() {
		if !there[s.path] {
			m.process(ctx, s)
			m.alive++
		}
	}
}

// child starts the child of this name.
func (m *manager) child(ctx actor.Context, name string) {
	c := m.c
	if s := c.pool.slotOf(c.path(name)); s != nil {
		m.process(ctx, s)
		return
	}
	supervised.Child(ctx, c.env.System.Props("fetcher", c.cfg.Name, func() actor.Actor { return &fetcher{c: c} }), name)
}

// process starts the processor of a slot.
func (m *manager) process(ctx actor.Context, s *slot) {
	c := m.c
	c.pool.present(s)
	_, name := supervised.SplitPath(s.path)
	supervised.Child(ctx, c.env.System.Props("processor", c.cfg.Name, func() actor.Actor { return &processor{c: c, slot: s} }), name)
}

// tellQuiet passes quiet on, once: the flag is in the capsule, where those that start
// later find it.
func (m *manager) tellQuiet(ctx actor.Context) {
	if m.passedOn || !m.c.isQuiet() {
		return
	}
	m.passedOn = true
	m.next.Stop()
	m.c.env.System.CancelReplacements(ctx.Self().GetId())
	for _, pid := range ctx.Children() {
		ctx.Send(pid, quiet{})
	}
	m.c.env.Changes.Wake()
}

func (m *manager) ended(ctx actor.Context, path string) {
	c := m.c
	replaced := m.next.Ended(path)
	s := c.pool.slotOf(path)
	if s != nil {
		if !replaced {
			m.alive--
		}
		c.pool.detach(s)
	}
	switch {
	case c.isQuiet(): // no child is replaced any more, whatever the strategy says
		c.env.Changes.Wake()
		return
	case replaced:
		m.next.Step(ctx)
		return
	case s != nil && c.pool.isAbsent(s):
		m.resize(ctx) // it may be needed again by now
		return
	}
	c.env.Log.Error().Str("actor", path).Int("processors_left", m.alive).
		Msg("an actor was stopped by its strategy and will not be replaced")
	if m.alive == 0 || path == c.path("fetcher") {
		c.quieted(path) // nobody is left to run, or to fetch: what waits goes back to the queues
	}
}

// quieted ends the fetching because a strategy has stopped the actor at path, which the
// capsule cannot do without; what waits goes back to the queues. Nothing but an event and
// a note in the tree would tell: the daemon runs on.
func (c *capsule) quieted(path string) {
	err := fmt.Errorf("%s was stopped by its strategy", path)
	if last := c.env.System.LastFailure(path); last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	c.mu.Lock()
	again := c.quietBy != ""
	if !again {
		c.quietBy = path
	}
	c.mu.Unlock()
	if !again {
		c.events.publish(event.CapsuleQuiet{At: time.Now(), Capsule: c.cfg.Name, Err: err})
	}
	c.beginQuiet()
}

// allQuiet tells whether nothing is fetched any more.
func (d *Daemon) allQuiet() bool {
	for _, c := range d.capsules {
		if !c.isQuiet() {
			return false
		}
	}
	return true
}
