package actors

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/rescue"
)

// rescuerPart is the path of the rescuer, and the part that Redis serves or does not.
const rescuerPart = launcherName + "/rescuer"

// newRescuer makes the actor that rescues the jobs of dead processes. It makes a round at its
// start and at each rescueInterval, sooner if a lease is about to expire. It makes one round
// at a time; the round itself makes sure that one process of the fleet works at a time.
func newRescuer(d *Daemon) *supervised.Loops {
	return supervised.NewLoops(d.env.Settling, d.env.System, rescuerPart, func(l *supervised.Loop) {
		for {
			next, ok := d.rescueOnce(l.Context)
			if !ok || next <= 0 {
				next = d.rescueInterval()
			}
			d.isolation.begin(l.Context)
			if !l.Sleep(next) {
				return
			}
		}
	})
}

// rescueInterval is half a lease, less a jitter of up to a fifth of it.
func (d *Daemon) rescueInterval() time.Duration {
	half := d.cfg.Lease / 2
	return half - time.Duration(jitter.Rand(d.env.Identity, "rescuer").Float64()*0.2*float64(half))
}

// rescueOnce searches once for dead processes and returns when the next search is due.
func (d *Daemon) rescueOnce(ctx context.Context) (next time.Duration, ok bool) {
	part := rescuerPart
	next = d.rescueInterval()
	for _, s := range d.systems {
		if s.rescue == nil {
			continue
		}
		got, err := s.rescue.Rescue(ctx)
		d.freeRerouted(ctx, got)
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
	d.env.Leases.Answered()
	return next, true
}

// young has the run id of the Redis that has the leases, and until when that counts as young.
type young struct {
	mu    sync.Mutex
	run   string
	until time.Time
}

// unknownRun stands for the run of a Redis that does not tell.
const unknownRun = "?"

// grace returns for how long processes that look dead are not rescued. After an outage, live
// processes need time to renew their leases. The same holds when Redis has run for less than a lease: it was
// away, or has fallen back to data in which leases are over.
func (d *Daemon) grace(ctx context.Context) (time.Duration, error) {
	run, up, err := redisconn.Age(ctx, d.env.Redis, keys.CommonOf("", true).Expiries)
	switch f := redisconn.Classify(err); {
	case f == redisconn.Auth || f == redisconn.Command: // INFO is refused: it may be as young as this process
		run, up = unknownRun, 0
	case err != nil:
		return 0, err
	}
	d.young.mu.Lock()
	defer d.young.mu.Unlock()
	if run != "" && run != d.young.run {
		d.young.run = run
		if up < d.cfg.Lease {
			d.young.until = time.Now().Add(d.cfg.Lease / 2)
		}
	}
	return max(d.env.Leases.Grace(), time.Until(d.young.until)), nil
}

// tellRescued counts, logs and publishes what a round has done, also if it was broken off.
func (d *Daemon) tellRescued(got rescue.Round) {
	if got.Fetchers > 0 || got.Units > 0 {
		d.rescuedUnits.Add(uint64(got.Units))
		var dead []string
		for _, from := range got.Details {
			if id, _, _ := strings.Cut(from.ID, "#"); !slices.Contains(dead, id) {
				dead = append(dead, id)
			}
		}
		d.events.publish(event.JobsRescued{At: time.Now(), Jobs: got.Units, Processes: dead})
		d.env.Log.Warn().Str("actor", rescuerPart).Int("fetchers", got.Fetchers).Int("jobs", got.Units).
			Msg("put back the jobs of a dead process")
	}
	d.tellRecovered(got)
}
