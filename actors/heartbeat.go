package actors

import (
	"errors"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/supervised"
)

// heartbeat keeps this process visible to Sidekiq, flushes the statistics, renews
// the leases and obeys the signals that Sidekiq's UI sends. Lease renewal and
// beat are separate ticks: a slow beat must not cost a lease.
type heartbeat struct {
	d       *Daemon
	epoch   uint64
	beating bool
	again   bool
	renewal bool
	timers  [2]*time.Timer
}

const (
	tickBeat = iota
	tickRenew
)

// heart is the part that Redis serves or does not.
const heart = launcherName + "/heartbeat"

type renewed struct{ epoch uint64 }

var errBeat = errors.New("the beat panicked")

func (h *heartbeat) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		h.epoch = h.d.env.System.NextEpoch()
		h.beat(ctx)
		h.renew(ctx)
	case tick:
		if m.epoch != h.epoch {
			return
		}
		if m.kind == tickRenew {
			h.renew(ctx)
		} else {
			h.beat(ctx)
		}
	case supervised.Wake, quiet, stop: // something worth showing has changed
		h.beat(ctx)
	case beaten:
		if m.epoch == h.epoch {
			h.beaten(ctx, m)
		}
	case renewed:
		if m.epoch == h.epoch {
			h.renewal = false
			h.after(ctx, tickRenew, h.d.cfg.Lease/3)
		}
	case *actor.Restarting, *actor.Stopping:
		for _, t := range h.timers {
			if t != nil {
				t.Stop()
			}
		}
	}
}

func (h *heartbeat) after(ctx actor.Context, kind int, wait time.Duration) {
	if h.timers[kind] != nil {
		h.timers[kind].Stop()
	}
	d, self, m := h.d, ctx.Self(), tick{epoch: h.epoch, kind: kind}
	h.timers[kind] = time.AfterFunc(wait, func() { d.env.System.Root().Send(self, m) })
}

func (h *heartbeat) beat(ctx actor.Context) {
	if h.beating {
		h.again = true
		return
	}
	h.beating, h.again = true, false
	d, self, epoch := h.d, ctx.Self(), h.epoch
	d.env.System.Spawn(heart, func() {
		m := beaten{epoch: epoch, err: errBeat}
		defer func() { d.env.System.Root().Send(self, m) }() // also after a panic, if the strategy resumes us
		m.result, m.err = d.beatOnce()
		for _, sig := range m.result.Signals { // here: they are off the list, and this actor may crash
			d.remote(sig)
		}
	})
}

func (h *heartbeat) beaten(ctx actor.Context, m beaten) {
	h.beating = false
	if len(m.result.Signals) > 0 {
		h.again = true // show the effect at once
	}
	if m.err == nil {
		h.d.beaten(!m.result.Existed)
	}
	if h.again {
		h.beat(ctx)
		return
	}
	h.after(ctx, tickBeat, nextBeat(time.Now(), h.d.cfg.HeartbeatInterval))
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

func (h *heartbeat) renew(ctx actor.Context) {
	if h.renewal {
		return
	}
	h.renewal = true
	d, self, epoch := h.d, ctx.Self(), h.epoch
	d.env.System.Spawn(heart, func() {
		defer d.env.System.Root().Send(self, renewed{epoch: epoch})
		d.renewLeases()
	})
}

// opened are the capsules whose fetchers are registered.
func (d *Daemon) opened() (all []*capsule) {
	for _, c := range d.capsules {
		if c.isOpened() {
			all = append(all, c)
		}
	}
	return all
}

// renewLeases gives the sign of life of every fetcher, all at once: one that does not get
// through must not cost the others their leases.
func (d *Daemon) renewLeases() {
	var all sync.WaitGroup
	for _, c := range d.opened() {
		all.Add(1)
		d.env.System.Spawn(heart, func() {
			defer all.Done()
			c.renew()
		})
	}
	all.Wait()
}
