package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/supervised"
)

const launcherName = "launcher"

// launcher is the root of the tree. It starts heartbeat, rescuer, poller, a relay per outbox and one
// manager per capsule, and passes quiet and stop on. The phase is in the daemon, so that a
// launcher that crashes while stopping goes on where the last one was.
type launcher struct {
	d        *Daemon
	stopping bool // Restarting or Stopping
	passedOn bool // quiet was passed on
	stopped  bool // stop was passed on
	next     *supervised.Replacements
}

func newLauncher(d *Daemon, o *supervised.Proxy) *launcher {
	l := &launcher{d: d}
	l.next = supervised.NewReplacements(o, l.child)
	return l
}

func (l *launcher) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		l.start(ctx)
		l.step(ctx)
	case quiet, stop:
		l.step(ctx)
	case supervised.Due:
		l.next.On(ctx, msg)
	case *actor.Restarting, *actor.Stopping:
		l.stopping = true
		l.next.Stop()
	case *actor.Terminated:
		if !l.stopping {
			l.ended(ctx, msg.Who.GetId())
			l.step(ctx)
		}
	}
}

func (l *launcher) ended(ctx actor.Context, path string) {
	if l.next.Ended(path) {
		l.next.Step(ctx)
		return
	}
	if l.d.phase() != phaseRunning {
		return
	}
	l.d.env.Log.Error().Str("actor", path).Msg("an actor was stopped by its strategy and will not be replaced")
	for _, c := range l.d.capsules {
		if path == c.Path() {
			c.quieted(path)
		}
	}
}

func (l *launcher) start(ctx actor.Context) {
	for _, name := range []string{"heartbeat", "rescuer", "poller"} {
		l.child(ctx, name)
	}
	for i := range l.d.cfg.Outboxes {
		l.child(ctx, l.d.cfg.Outboxes[i].actor())
	}
	for _, c := range l.d.capsules {
		l.child(ctx, c.cfg.Name)
	}
}

// child starts the child of this name. Only the poller has nothing to do after
// quiet, and a relay after the stop has begun: the others keep the process alive in Redis, and its jobs to their end.
func (l *launcher) child(ctx actor.Context, name string) {
	d := l.d
	switch name {
	case "heartbeat":
		supervised.Child(ctx, d.env.System.Props(name, "", func() actor.Actor { return newHeartbeat(d) }), name)
	case "rescuer":
		supervised.Child(ctx, d.env.System.Props(name, "", func() actor.Actor { return newRescuer(d) }), name)
	case "poller":
		if d.phase() == phaseRunning {
			supervised.Child(ctx, d.env.System.Props(name, "", func() actor.Actor { return newPoller(d) }), name)
		}
	}
	for i := range d.cfg.Outboxes {
		if o := &d.cfg.Outboxes[i]; o.actor() == name && d.phase() < phaseStopping {
			supervised.Child(ctx, d.env.System.Props("outbox", "", func() actor.Actor { return newRelaying(d, o) }), name)
		}
	}
	for _, c := range d.capsules {
		if c.cfg.Name == name {
			supervised.Child(ctx, d.env.System.SupervisorProps("manager", name, c.cfg.Strategy, func(o *supervised.Proxy) actor.Actor { return newManager(c, o) }), name)
		}
	}
}

// step passes quiet on, once, and stop to the relays. It may be called at any time.
func (l *launcher) step(ctx actor.Context) {
	phase := l.d.phase()
	if !l.passedOn && phase >= phaseQuiet {
		l.passedOn = true
		for _, pid := range ctx.Children() {
			ctx.Send(pid, quiet{})
		}
	}
	if !l.stopped && phase >= phaseStopping {
		l.stopped = true
		for _, pid := range ctx.Children() {
			if isOutbox(pid.GetId()) {
				ctx.Send(pid, stop{})
			}
		}
	}
}
