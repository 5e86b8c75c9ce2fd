package actors

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

// manager supervises the fetcher and the processors of one capsule. A restart
// of it stops and respawns them all; jobs that run meanwhile go on and are
// adopted by the next processor of their slot, so that there are never more than
// Concurrency at once.
type manager struct {
	c        *capsule
	stopping bool // Restarting or Stopping: children end because we do
	told     bool // quiet was passed on
	alive    int  // processors, those included that are being replaced
	next     successors
}

func newManager(c *capsule, o *oversight) *manager {
	m := &manager{c: c}
	m.next = successors{o: o, start: m.child}
	return m
}

func (m *manager) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		m.start(ctx)
	case quiet, wake:
		m.tellQuiet(ctx)
	case due:
		if !m.c.isQuiet() {
			m.next.on(ctx, msg)
		}
	case *actor.Restarting, *actor.Stopping:
		m.stopping = true
		m.next.stop()
	case *actor.Terminated:
		if !m.stopping {
			m.ended(ctx, msg.Who.GetId())
		}
	}
}

func (m *manager) start(ctx actor.Context) {
	c, d := m.c, m.c.d
	c.mu.Lock()
	c.manager = ctx.Self()
	quieting := c.quiet
	busy := make([]bool, len(c.slots))
	for i, s := range c.slots {
		busy[i] = s.worker != nil
	}
	c.mu.Unlock()
	for i := range busy {
		if quieting && !busy[i] {
			continue
		}
		m.child(ctx, "processor-"+strconv.Itoa(i))
		m.alive++
	}
	if !quieting {
		m.child(ctx, "fetcher")
	}
	c.announce.Do(func() {
		if d.managers.Add(1) == int64(len(d.capsules)) {
			close(d.up)
		}
	})
	m.tellQuiet(ctx)
}

// child starts the child of this name.
func (m *manager) child(ctx actor.Context, name string) {
	c := m.c
	if i, ok := processorIndex(name); ok {
		c.d.child(ctx, c.d.props("processor", c.cfg.Name, func() actor.Actor { return &processor{c: c, slot: c.slots[i]} }), name)
		return
	}
	c.d.child(ctx, c.d.props("fetcher", c.cfg.Name, func() actor.Actor { return &fetcher{c: c} }), name)
}

func processorIndex(name string) (int, bool) {
	number, ok := strings.CutPrefix(name, "processor-")
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(number)
	return i, err == nil
}

// tellQuiet passes quiet on, once: the flag is in the capsule, where those that start
// later find it.
func (m *manager) tellQuiet(ctx actor.Context) {
	if m.told || !m.c.isQuiet() {
		return
	}
	m.told = true
	m.next.stop()
	m.c.d.tree.disinherit(ctx.Self().GetId())
	for _, pid := range ctx.Children() {
		ctx.Send(pid, quiet{})
	}
	m.c.d.wakeLauncher()
}

func (m *manager) ended(ctx actor.Context, path string) {
	c := m.c
	replaced := m.next.ended(path)
	_, name := splitPath(path)
	if i, ok := processorIndex(name); ok {
		if !replaced {
			m.alive--
		}
		c.detach(i)
	}
	switch {
	case c.isQuiet(): // whatever its strategy wants: nobody is needed any more
		c.d.wakeLauncher()
		return
	case replaced:
		m.next.step(ctx)
		return
	}
	c.d.log.Error().Str("actor", path).Int("processors_left", m.alive).
		Msg("an actor was stopped by its strategy and will not be replaced")
	if m.alive == 0 || path == c.path("fetcher") {
		c.d.quieted(c, path) // nobody is left to run, or to fetch: what waits goes back to the queues
	}
}

func (c *capsule) processorPath(i int) string { return c.path("processor-" + strconv.Itoa(i)) }

func (c *capsule) slotPID(i int) *actor.PID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slots[i].pid
}

// child spawns a child; a failure is a bug of ours and crashes the parent.
func (d *Daemon) child(ctx actor.Context, p *actor.Props, name string) *actor.PID {
	pid, err := ctx.SpawnNamed(p, name)
	if err != nil {
		panic(fmt.Errorf("spawn %s/%s: %w", ctx.Self().GetId(), name, err))
	}
	return pid
}
