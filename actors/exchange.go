package actors

import (
	"runtime"
	"time"

	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/fetch"
)

// Exchange is one call: it carries acks and takes up to want units.
func (c *capsule) Exchange(want int, acks []*work.Item) error {
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
		c.mu.Lock()
		c.ahead.Failed(want)
		c.mu.Unlock()
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
	c.receive(got, want, took)
	c.taken(want, len(got))
	c.env.Outage.OK(c.path("fetcher")) // it may log, by what others wrote
	if len(got) > 0 && len(got) < want {
		runtime.Gosched() // the workers first: there is no hurry to fetch again
	}
	return nil
}

// receive takes over fetched units: into the ledger first, then to the workers.
// Those that come after quiet began go back to their queue at once.
func (c *capsule) receive(got []fetch.Unit, want int, took time.Duration) {
	ws := run.Items(got, c.system.wire, time.Now())
	size := 0
	for _, u := range got {
		size += len(u.Payload)
	}
	c.mu.Lock()
	c.answered, c.fenced = true, time.Time{}
	if want > 0 {
		c.ahead.Called(took, len(got), size)
		c.dry = len(got) < min(want, takeLimit) && c.ahead.Emptied(size)
	}
	if !c.quiet && c.ledger.Add(ws) {
		c.inbox = append(c.inbox, ws...)
		c.wakeNext()
		c.mu.Unlock()
		return
	}
	c.ledger.Claim(ws)
	c.mu.Unlock()
	c.giveBack(ws)
}
