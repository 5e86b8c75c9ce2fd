package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

const launcherName = "launcher"

// launcher is the root of the tree. It starts heartbeat, rescuer, poller and one
// manager per capsule, and conducts the stop protocol. Phase and deadline are in
// the daemon, so that a launcher that crashes while stopping goes on where the
// last one was.
type launcher struct {
	d        *Daemon
	timer    *time.Timer
	stopping bool // Restarting or Stopping
	told     bool // quiet was passed on
	next     successors
}

func newLauncher(d *Daemon, o *oversight) *launcher {
	l := &launcher{d: d}
	l.next = successors{o: o, start: l.child}
	return l
}

func (l *launcher) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		l.start(ctx)
		l.step(ctx)
	case wake, quiet, stop, tick:
		l.step(ctx)
	case due:
		l.next.on(ctx, msg)
	case *actor.Restarting, *actor.Stopping:
		l.stopping = true
		l.next.stop()
		if l.timer != nil {
			l.timer.Stop()
		}
	case *actor.Terminated:
		if !l.stopping {
			l.ended(ctx, msg.Who.GetId())
			l.step(ctx)
		}
	}
}

func (l *launcher) ended(ctx actor.Context, path string) {
	if l.next.ended(path) {
		l.next.step(ctx)
		return
	}
	if l.d.phase() != phaseRunning {
		return
	}
	l.d.log.Error().Str("actor", path).Msg("an actor was stopped by its strategy and will not be replaced")
	for _, c := range l.d.capsules {
		if path == launcherName+"/"+c.cfg.Name {
			l.d.quieted(c, path)
		}
	}
}

func (l *launcher) start(ctx actor.Context) {
	l.d.setLauncher(ctx.Self())
	for _, name := range []string{"heartbeat", "rescuer", "poller"} {
		l.child(ctx, name)
	}
	for _, c := range l.d.capsules {
		l.child(ctx, c.cfg.Name)
	}
}

// child starts the child of this name. Only the poller has nothing to do after
// quiet: the others keep the process alive in Redis, and its jobs to their end.
func (l *launcher) child(ctx actor.Context, name string) {
	d := l.d
	switch name {
	case "heartbeat":
		d.child(ctx, d.props(name, "", func() actor.Actor { return &heartbeat{d: d} }), name)
	case "rescuer":
		d.child(ctx, d.props(name, "", func() actor.Actor { return &rescuer{d: d} }), name)
	case "poller":
		if d.phase() == phaseRunning {
			d.child(ctx, d.props(name, "", func() actor.Actor { return &poller{d: d} }), name)
		}
	}
	for _, c := range d.capsules {
		if c.cfg.Name == name {
			d.child(ctx, d.supervisor("manager", name, c.cfg.Strategy, func(o *oversight) actor.Actor { return newManager(c, o) }), name)
		}
	}
}

// step does what the phase asks for; it may be called at any time.
func (l *launcher) step(ctx actor.Context) {
	d := l.d
	phase := d.phase()
	if phase == phaseRunning {
		return
	}
	if !l.told {
		l.told = true
		for _, pid := range ctx.Children() {
			ctx.Send(pid, quiet{})
		}
	}
	if phase < phaseStopping {
		return
	}
	if d.allDrained() {
		d.declareDrained()
		return
	}
	left := time.Until(d.deadline())
	if left <= 0 {
		d.hardStop()
		return
	}
	if l.timer == nil {
		self := ctx.Self()
		l.timer = time.AfterFunc(left, func() { d.root().Send(self, tick{}) })
	}
}
