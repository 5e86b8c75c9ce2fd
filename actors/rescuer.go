package actors

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/rescue"
)

// rescuerPart is the path of the rescuer, and the part that Redis serves or does not.
const rescuerPart = launcherName + "/rescuer"

// newRescuer makes the actor that puts back what dead processes had in progress: a look at
// start-up, then one per rescueInterval, sooner when a lease is about to expire. One look
// at a time; the look itself makes sure that one process of the fleet does it.
func newRescuer(d *Daemon) *supervised.Loops {
	return supervised.NewLoops(d.env.Settling, d.env.System, rescuerPart, func(l *supervised.Loop) {
		for {
			next, ok := d.rescueOnce(l.Context)
			if !ok || next <= 0 {
				next = d.rescueInterval()
			}
			d.isolation.look(l.Context)
			if !l.Sleep(next) {
				return
			}
		}
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
	next = d.rescueInterval()
	for _, s := range d.systems {
		if s.rescue == nil {
			continue
		}
		got, err := s.rescue.Rescue(ctx)
		d.tellRescued(got)
		if err != nil {
			if ctx.Err() == nil {
				d.env.Outage.Failed(part, err)
			}
			return 0, false
		}
		next = min(next, got.Next)
	}
	d.env.Outage.OK(part)
	return next, true
}

// tellRescued counts and tells what a round has done, a broken one too.
func (d *Daemon) tellRescued(got rescue.Round) {
	if got.Fetchers > 0 || got.Units > 0 {
		d.rescuedUnits.Add(uint64(got.Units))
		var dead []string
		for _, from := range got.Details {
			if id, _, _ := strings.Cut(from.ID, "#"); !slices.Contains(dead, id) {
				dead = append(dead, id)
			}
		}
		d.events.publish(JobsRescued{At: time.Now(), Jobs: got.Units, Processes: dead})
		d.env.Log.Warn().Str("actor", rescuerPart).Int("fetchers", got.Fetchers).Int("jobs", got.Units).
			Msg("put back the jobs of a dead process")
	}
	d.tellRecovered(got)
}
