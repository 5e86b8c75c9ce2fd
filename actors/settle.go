package actors

import (
	"context"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/errchain"
)

// exchange makes one call: it carries acks and takes up to want units.
func (c *capsule) exchange(want int, acks []*work.Item) error {
	units := make([]fetch.Unit, len(acks))
	for i, w := range acks {
		units[i] = w.Unit
	}
	ctx, cancel := c.env.Call()
	defer cancel()
	returned := false
	defer func() {
		if !returned { // a third party's fetcher panicked
			c.settler.PutBack(acks)
		}
	}()
	began := time.Now()
	got, err := c.fetcher.Take(ctx, want, units)
	took := time.Since(began)
	returned = true
	if fenced(err) {
		c.onFenced(err)
		c.settler.PutBack(c.ledger.Ours(acks)) // those of the next incarnation; the others were refused
		c.env.Outage.OK(c.path("fetcher"))
		return nil
	}
	if err != nil {
		c.env.Outage.Failed(c.path("fetcher"), err)
		c.intake.askedInVain(want)
		c.settler.PutBack(acks)
		return err
	}
	if want > 0 {
		c.traffic.Fetched(took, len(got), func(i int) string { return got[i].Queue })
	} else {
		c.traffic.Settled(took)
	}
	acks = c.ledger.Ours(acks) // those of a fenced incarnation had no effect
	c.Settled(acks...)
	c.runs.Acked(acks)
	c.intake.receive(got, want, took)
	c.env.Outage.OK(c.path("fetcher")) // it may log, by what others wrote
	return nil
}

// Ack implements work.Host.
func (c *capsule) Ack(acks []*work.Item) error { return c.exchange(0, acks) }

// CarriesAcks implements work.Host.
func (c *capsule) CarriesAcks() bool { return c.intake.carriesAcks() }

// Settled takes items off the ledger whose outcome is in Redis.
func (c *capsule) Settled(ws ...*work.Item) {
	c.ledger.Settled(ws...)
	c.drain.settled(ws)
	c.env.Changes.Wake()
}

// Settle makes one try to carry out moves.
func (c *capsule) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	began := time.Now()
	results, err := c.fetcher.Settle(ctx, moves)
	if err == nil {
		c.traffic.Settled(time.Since(began))
	}
	switch part := c.path("settle"); {
	case fenced(err):
		c.onFenced(err)
		c.env.Outage.OK(part)
	case err != nil:
		c.env.Outage.Failed(part, err)
	default:
		c.env.Outage.OK(part)
		for _, r := range results {
			if r == fetch.NotMine {
				c.refused.Add(1)
			}
		}
	}
	return results, err
}

// Reached tells whether Redis answers a call without a payload.
func (c *capsule) Reached(ctx context.Context) bool { return c.system.redis.Ping(ctx).Err() == nil }

// takeBack returns units to their queues unless their outcome is decided already.
func (c *capsule) takeBack(ws []*work.Item) []*work.Move {
	var mine []*work.Item
	for _, w := range ws {
		if c.ledger.Take(w) {
			mine = append(mine, w)
		}
	}
	return c.giveBack(mine)
}

// giveBack returns units that were never started to their queues.
func (c *capsule) giveBack(ws []*work.Item) []*work.Move {
	moves := make([]*work.Move, 0, len(ws))
	for _, w := range ws {
		m := fetch.Move{To: fetch.ToQueue}
		if r, ok := w.Job.(*run.Run); ok {
			m.Effects = r.GivenBack()
		}
		moves = append(moves, work.NewMove(w, m))
	}
	if len(moves) > 0 {
		c.settler.Submit(moves...)
	}
	return moves
}

// fenced tells whether err is a *fetch.FencedError.
func fenced(err error) bool { return errchain.Has[*fetch.FencedError](err) }

// giveBackLate gives back what has waited too long for a worker: another process may
// have one free. The next Take waits for that: it would bring what stands behind these
// units in the queue, and they are to run in order.
func (c *capsule) giveBackLate(late []*work.Item) {
	for _, m := range c.takeBack(late) {
		select {
		case <-m.Done:
		case <-m.Refused:
		}
	}
}

// onFenced ends what another process has taken over.
func (c *capsule) onFenced(err error) {
	f, ok := errchain.As[*fetch.FencedError](err)
	if !ok {
		return
	}
	interrupted, late := c.ledger.Fenced(f.Incarnation)
	c.refused.Add(uint64(late))
	c.fencings.Add(1)
	c.mu.Lock()
	c.intake.fenced = time.Now()
	c.mu.Unlock()
	for _, w := range interrupted {
		w.Job.Interrupt(troupe.ErrFenced)
	}
	c.env.Changes.Wake()
	c.events.publish(event.Fenced{At: time.Now(), Capsule: c.cfg.Name, Jobs: refsOf(interrupted), Refused: late})
	supervised.Tell(func() { // the caller has jobs in its hands that are not fenced
		c.env.Log.Error().Str("actor", c.path("fetcher")).Str("fetcher", f.ID).
			Int("jobs_cancelled", len(interrupted)).Int("settlements_refused", late).
			Msg("fenced: this process was taken for dead and its jobs were put back by another")
	})
}

func refsOf(ws []*work.Item) []JobRef {
	refs := make([]JobRef, len(ws))
	for i, w := range ws {
		refs[i] = w.Job.Ref()
	}
	return refs
}
