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
	hushed   bool
}

func (l *launcher) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		resetStrategy(l.d.cfg.Strategy)
		l.start(ctx)
		l.step(ctx)
	case wake, quiet, stop, tick:
		l.step(ctx)
	case *actor.Restarting, *actor.Stopping:
		l.stopping = true
		if l.timer != nil {
			l.timer.Stop()
		}
	case *actor.Terminated:
		if l.stopping {
			return
		}
		if l.d.phase() == phaseRunning {
			l.d.log.Error().Str("actor", msg.Who.GetId()).Msg("an actor was stopped by its strategy and will not be replaced")
			for _, c := range l.d.capsules {
				if msg.Who.GetId() == launcherName+"/"+c.cfg.Name {
					c.hush() // what waits goes back to the queues
				}
			}
		}
		l.step(ctx)
	}
}

func (l *launcher) start(ctx actor.Context) {
	d := l.d
	d.setLauncher(ctx.Self())
	d.child(ctx, d.props("heartbeat", "", func() actor.Actor { return &heartbeat{d: d} }), "heartbeat")
	d.child(ctx, d.props("rescuer", "", func() actor.Actor { return &rescuer{d: d} }), "rescuer")
	if d.phase() == phaseRunning {
		d.child(ctx, d.props("poller", "", func() actor.Actor { return &poller{d: d} }), "poller")
	}
	for _, c := range d.capsules {
		d.child(ctx, d.props("manager", c.cfg.Name, func() actor.Actor { return &manager{c: c} },
			actor.WithSupervisor(c.cfg.Strategy)), c.cfg.Name)
	}
}

// step does what the phase asks for; it may be called at any time.
func (l *launcher) step(ctx actor.Context) {
	d := l.d
	phase := d.phase()
	if phase == phaseRunning {
		return
	}
	if !l.hushed {
		l.hushed = true
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
