package actors

import (
	"runtime"
	"slices"
	"time"

	"github.com/troupehq/troupe/fetch"
)

// abreast is how many slots are woken at a time: several where there are many
// processors, since each of them takes some microseconds to wake the next.
func abreast() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// dispatch offers waiting units to idle slots, to one or a few at a time: each slot that
// begins has the next woken. So jobs that block wake slot after slot, and jobs
// that do not are run by the few that the machine has room for, each going on
// with the next unit, while the others sleep. c.mu is held.
func (c *capsule) dispatch() {
	for !c.held && len(c.inbox) > 0 && len(c.idle) > 0 && c.waking() < c.abreast {
		c.offer()
	}
	if len(c.inbox) > 0 && c.stale == nil && !c.quiet {
		c.stale = time.AfterFunc(c.pace.patience(), c.checkInbox)
	}
}

// waking counts the slots that are about to begin. c.mu is held.
func (c *capsule) waking() int {
	c.woken = slices.DeleteFunc(c.woken, func(i int) bool { return c.slots[i].pending == nil })
	return len(c.woken)
}

// offer hands the oldest waiting unit to an idle slot, if one is willing. c.mu is held.
func (c *capsule) offer() {
	if s := c.willing(); s != nil {
		s.pending = c.pop()
		c.woken = append(c.woken, s.index)
		c.launch(s)
	}
}

// willing takes a slot off the idle list; nil if there is none. One whose actor is held
// or suspended is passed over: it comes back when it gets its doorbell. c.mu is held.
func (c *capsule) willing() *slot {
	for len(c.idle) > 0 {
		s := c.slots[c.idle[len(c.idle)-1]]
		c.delist(s)
		if !s.box.keeps() {
			return s
		}
		s.box.ring()
	}
	return nil
}

// demand tells the fetcher if a Take has become due: the last unit that waited is
// with a slot, and others are idle. c.mu is held.
func (c *capsule) demand() {
	if c.due() {
		c.rung = true
		c.fetchBox.ring()
	}
}

// pop takes the oldest unit off the inbox. c.mu is held.
func (c *capsule) pop() *work {
	w := c.inbox[0]
	c.inbox[0] = nil
	c.inbox = c.inbox[1:]
	return w
}

// checkInbox gives back what has waited too long for a slot: somebody else may
// have one free. No Take is under way meanwhile, before or after: it would bring
// what stands behind these units in the queue, and they are to run in order.
func (c *capsule) checkInbox() {
	c.mu.Lock()
	if c.stale != nil {
		c.stale.Stop()
		c.stale = nil
	}
	if c.quiet || len(c.inbox) == 0 {
		c.mu.Unlock()
		return
	}
	now := time.Now()
	left := c.pace.patience() - now.Sub(c.inbox[0].fetched)
	for left <= 0 && !c.held && len(c.inbox) > 0 && len(c.idle) > 0 { // the machine is late, or an actor is
		c.offer()
	}
	c.demand()
	if len(c.inbox) == 0 {
		c.mu.Unlock()
		return
	}
	if c.calling {
		left = max(left, holdTime/5)
	}
	if left > 0 {
		c.stale = time.AfterFunc(left, c.checkInbox)
		c.mu.Unlock()
		return
	}
	back := c.inbox
	c.inbox = nil
	c.pace.stop(now)
	c.giving = true
	c.mu.Unlock()
	moves := c.takeBack(back)
	c.d.spawn(c.managerPID(), func() {
		defer func() {
			c.mu.Lock()
			c.giving = false
			c.fetchBox.ring()
			c.mu.Unlock()
		}()
		for _, m := range moves {
			select {
			case <-m.done:
			case <-m.parked: // refused: it waits apart
			}
		}
	})
}

// takeBack returns units to their queues unless their fate is decided elsewhere.
func (c *capsule) takeBack(ws []*work) []*pendingMove {
	var mine []*work
	for _, w := range ws {
		if c.ledger.take(w) {
			mine = append(mine, w)
		}
	}
	return c.giveBack(mine)
}

// room is how many units there is use for: one for each free slot, and the
// look-ahead. c.mu is held.
func (c *capsule) room() int {
	if c.held {
		return 0
	}
	return max(0, len(c.idle)+c.pace.ahead-len(c.inbox))
}

// forget closes the books on settled units.
func (c *capsule) forget(ws ...*work) {
	c.ledger.settled(ws...)
	if c.d.isolating.Load() {
		c.d.changes.ring()
	}
	if len(ws) > 0 && c.d.hushed.Load() {
		c.d.noteFinished(ws)
		c.d.ringLauncher()
	}
}

// receive takes over fetched units: into the ledger first, then to the slots.
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
		c.pace.called(took, len(got), size)
		c.dry = len(got) < min(want, takeLimit) && c.pace.emptied(size)
	}
	if !c.quiet && c.ledger.add(ws) {
		if len(c.inbox) == 0 {
			c.inbox = ws
		} else {
			c.inbox = append(c.inbox, ws...)
		}
		c.dispatch()
		c.mu.Unlock()
		return
	}
	c.ledger.claim(ws)
	c.mu.Unlock()
	c.giveBack(ws)
}

// makeWork makes the books' entries of units. Some share an allocation, and as long as one of
// these runs the payloads of all stay in memory: few, and large ones none.
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

// giveBack returns units that were never started to their queues.
func (c *capsule) giveBack(ws []*work) []*pendingMove {
	moves := make([]*pendingMove, 0, len(ws))
	for _, w := range ws {
		moves = append(moves, &pendingMove{
			w: w, move: fetch.Move{Unit: w.unit, To: fetch.ToQueue}, done: make(chan struct{}), parked: make(chan struct{}),
		})
	}
	if len(moves) > 0 {
		c.settler.submit(moves...)
	}
	return moves
}
