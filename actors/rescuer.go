package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/rescue"
)

// rescuerPart is the part that Redis serves or does not.
const rescuerPart = launcherName + "/rescuer"

// rescuer puts back what dead processes had in progress: a look at start-up, then one
// per rescueInterval, sooner when a lease is about to expire. One look at a time; the
// look itself makes sure that one process of the fleet does it.
type rescuer struct {
	d       *Daemon
	epoch   uint64
	timer   *time.Timer
	cancel  context.CancelFunc
	looking bool
}

type rescued struct {
	epoch uint64
	next  time.Duration
}

func (r *rescuer) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		r.epoch = r.d.env.System.NextEpoch()
		r.look(ctx)
	case tick:
		if m.epoch == r.epoch {
			r.look(ctx)
		}
	case supervised.Wake:
		r.look(ctx)
	case rescued:
		if m.epoch != r.epoch {
			return
		}
		r.looking = false
		self, epoch := ctx.Self(), r.epoch
		r.timer = time.AfterFunc(m.next, func() { r.d.env.System.Root().Send(self, tick{epoch: epoch}) })
	case *actor.Restarting, *actor.Stopping:
		if r.timer != nil {
			r.timer.Stop()
		}
		if r.cancel != nil {
			r.cancel()
		}
	}
}

func (r *rescuer) look(ctx actor.Context) {
	if r.looking {
		return
	}
	r.looking = true
	if r.timer != nil {
		r.timer.Stop()
	}
	d, self, epoch := r.d, ctx.Self(), r.epoch
	c, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	d.env.System.Spawn(rescuerPart, func() {
		m := rescued{epoch: epoch, next: d.rescueInterval()}
		defer func() { d.env.System.Root().Send(self, m) }()
		defer cancel()
		if next, ok := d.rescueOnce(c); ok && next > 0 {
			m.next = next
		}
		d.isolation.look(c)
	})
}

// rescueInterval is half a lease, 15 s by default, with a fifth of jitter.
func (d *Daemon) rescueInterval() time.Duration {
	half := d.cfg.Lease / 2
	return half - time.Duration(jitter.Rand(d.env.Identity, "rescuer").Float64()*0.2*float64(half))
}

// rescueOnce makes one look and tells when the next one is due.
func (d *Daemon) rescueOnce(ctx context.Context) (next time.Duration, ok bool) {
	part := rescuerPart
	if wait := d.env.Outage.LeaseGrace(d.cfg.Lease); wait > 0 {
		if err := d.env.Redis.Ping(ctx).Err(); err != nil {
			if ctx.Err() == nil {
				d.env.Outage.Failed(part, err)
			}
			return 0, false
		}
		d.env.Outage.OK(part)
		return min(wait, d.rescueInterval()), true
	}
	got, err := d.rescue.Rescue(ctx)
	if err != nil {
		d.tellRescued(got)
		if ctx.Err() == nil {
			d.env.Outage.Failed(part, err)
		}
		return 0, false
	}
	d.env.Outage.OK(part)
	d.tellRescued(got)
	return min(got.Next, d.rescueInterval()), true
}

// tellRescued counts and tells what a round has done, a broken one too.
func (d *Daemon) tellRescued(got rescue.Round) {
	if got.Fetchers > 0 || got.Units > 0 {
		d.rescuedUnits.Add(uint64(got.Units))
		d.events.tell(func() Event { return JobsRescued{At: time.Now(), Jobs: got.Units} })
		d.env.Log.Warn().Str("actor", rescuerPart).Int("fetchers", got.Fetchers).Int("jobs", got.Units).
			Msg("put back the jobs of a dead process")
	}
	d.tellRecovered(got)
}
