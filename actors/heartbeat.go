package actors

import (
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/supervised"
)

// heart is the path of the heartbeat.
const heart = launcherName + "/heartbeat"

// heartbeat keeps this process visible to Sidekiq, flushes the statistics, renews
// the leases and obeys the signals that Sidekiq's UI sends. Lease renewal and
// beat are separate loops: a slow beat must not cost a lease.
type heartbeat struct {
	*supervised.Loops
	d *Daemon
}

func newHeartbeat(d *Daemon) *heartbeat {
	h := &heartbeat{d: d}
	d.events.recorder.OnUrgent(func() { d.env.System.Send(heart, supervised.Wake{}) })
	h.Loops = supervised.NewLoops(d.env.Settling, d.env.System, heart, h.beat, h.renew, h.listen, h.progress)
	return h
}

func (h *heartbeat) Receive(ctx actor.Context) {
	h.Loops.Receive(ctx)
	if _, ok := ctx.Message().(quiet); ok {
		h.Wake() // show it
	}
}

func (h *heartbeat) beat(l *supervised.Loop) {
	for {
		h.once()
		if !l.Sleep(nextBeat(time.Now(), h.d.cfg.HeartbeatInterval)) {
			return
		}
	}
}

// once makes one beat, and obeys the signals that it brings.
func (h *heartbeat) once() {
	result, err := h.d.beatOnce()
	h.d.noteBeat(err)
	for _, sig := range result.Signals {
		h.d.remote(sig)
		h.Wake(0) // show the effect
	}
	if err == nil {
		h.d.beaten(!result.Existed)
	}
}

// beatGrid is a moment of the wall clock at which the processes of a fleet beat, as
// far as their clocks agree. To wake a Redis that sleeps costs it several times
// what a beat does, so it is woken for a few at a time: of a thousand processes
// these are five, in half a millisecond.
const beatGrid = 50 * time.Millisecond

// nextBeat is how long after now the next beat is due.
func nextBeat(now time.Time, interval time.Duration) time.Duration {
	if interval < 20*beatGrid {
		return interval
	}
	return now.Add(interval).Round(beatGrid).Sub(now)
}

// renew gives the sign of life of every fetcher, all at once: one that does not get
// through must not cost the others their leases.
func (h *heartbeat) renew(l *supervised.Loop) {
	for {
		var all sync.WaitGroup
		for _, c := range h.d.capsules {
			if !c.intake.isOpened() {
				continue
			}
			all.Add(1)
			h.d.env.System.Spawn(heart, func() {
				defer all.Done()
				c.renew()
			})
		}
		all.Wait()
		if !l.Pause(h.d.cfg.Lease / 3) {
			return
		}
	}
}
