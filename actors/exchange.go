package actors

import (
	"errors"
	"runtime"
	"time"

	"github.com/troupehq/troupe/fetch"
)

// exchange is one call: it carries acks and takes up to want units.
func (c *capsule) exchange(want int, acks []*work) error {
	units := make([]fetch.Unit, len(acks))
	for i, w := range acks {
		units[i] = w.unit
	}
	ctx, cancel := c.env.Call()
	defer cancel()
	returned := false
	defer func() {
		if !returned { // a third party's fetcher panicked
			c.settler.putBack(acks)
		}
	}()
	began := time.Now()
	got, err := c.fetcher.Take(ctx, want, units)
	took := time.Since(began)
	returned = true
	if fenced(err) {
		c.onFenced(err) // the acks were refused with it
		c.env.Outage.OK(c.path("fetcher"))
		return nil
	}
	if err != nil {
		c.env.Outage.Failed(c.path("fetcher"), err)
		c.mu.Lock()
		c.ahead.failed(want)
		c.mu.Unlock()
		c.settler.putBack(acks)
		return err
	}
	acks = c.ledger.ours(acks) // those of a fenced incarnation had no effect
	c.settled(acks...)
	c.dropIterations(acks)
	c.receive(got, want, took)
	c.env.Outage.OK(c.path("fetcher")) // it may log, by what others wrote
	if len(got) > 0 && len(got) < want {
		runtime.Gosched() // the workers first: there is no hurry to fetch again
	}
	return nil
}

// receive takes over fetched units: into the ledger first, then to the workers.
// Those that come after quiet began go back to their queue at once.
func (c *capsule) receive(got []fetch.Unit, want int, took time.Duration) {
	now := time.Now()
	ws := makeWork(got)
	size := 0
	for i, u := range got {
		ws[i].fetched = now
		size += len(u.Payload)
	}
	c.mu.Lock()
	if want > 0 {
		c.ahead.called(took, len(got), size)
		c.dry = len(got) < min(want, takeLimit) && c.ahead.emptied(size)
	}
	if !c.quiet && c.ledger.add(ws) {
		c.inbox = append(c.inbox, ws...)
		c.wakeNext()
		c.mu.Unlock()
		return
	}
	c.ledger.claim(ws)
	c.mu.Unlock()
	c.giveBack(ws)
}

// makeWork makes the ledger's entries of units. Some share an allocation, and as long as one
// of these runs the payloads of all stay in memory: few, and large ones none.
func makeWork(got []fetch.Unit) []*work {
	ws := make([]*work, len(got))
	var few []work
	for i := range got {
		if len(got[i].Payload) > 2048 {
			ws[i] = &work{unit: got[i]}
			continue
		}
		if len(few) == 0 {
			few = make([]work, min(64, len(got)-i))
		}
		ws[i], few = &few[0], few[1:]
		ws[i].unit = got[i]
	}
	return ws
}

// fenced tells whether err is a *fetch.FencedError.
func fenced(err error) bool { return errors.Is(err, fetch.ErrFenced) }
