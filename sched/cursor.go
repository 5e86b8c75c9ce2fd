package sched

import (
	"hash/maphash"
	"sync"
	"time"
)

// How long a member that could not be moved is left alone: doubled each time.
const (
	firstHold = 5 * time.Second
	maxHold   = time.Minute

	// What is known of held members goes when there are this many: they are
	// tried and reported again, nothing else.
	maxHeld = 100_000

	// A batch is cut down to about this many bytes, so that a set of huge jobs
	// neither fills our memory nor stops Redis for long.
	batchBytes = 1 << 20
)

// cursor is what a Scheduler remembers of one set between batches. It is only
// a hint: forgetting it costs time, never a job.
type cursor struct {
	mu     sync.Mutex // never held while waiting
	offset int        // members at the front that this pass has gone past
	limit  int        // members of the next batch; 0 means Config.Batch

	// With more than a batch of held members at the front, a pass starts behind
	// them, except for one pass in firstHold that looks at all.
	front     int
	frontTill time.Time
	partial   bool      // this pass has started behind them
	started   time.Time // this pass

	// The member at which user's code is at work, "" if at none. Should that end
	// the goroutine, the next batch goes past the member and does not end likewise.
	trying string

	seed maphash.Seed
	held map[uint64]hold
}

type hold struct {
	till time.Time
	wait time.Duration
}

// begin returns where the next batch starts and how long it is.
func (c *cursor) begin(now time.Time, batch int) (offset, limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit == 0 {
		c.limit = batch
	}
	if c.trying != "" {
		c.holdLocked(c.trying, now)
		c.trying = ""
	}
	if c.offset == 0 {
		c.started = now
		c.partial = c.front >= batch && now.Before(c.frontTill)
		if c.partial {
			c.offset = c.front
		}
	}
	return c.offset, c.limit
}

// end records a batch: how many members it had and how many bytes, how many of
// them stay, and whether more may be due. It returns when the first held member
// is to be tried again, zero if none is held.
func (c *cursor) end(now time.Time, size, bytes, stay, batch int, more bool) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes > batchBytes {
		c.limit = max(1, size*batchBytes/bytes)
	} else if bytes < batchBytes/2 {
		c.limit = min(batch, 2*c.limit)
	}
	c.offset += stay
	if more {
		return time.Time{}
	}
	var next time.Time
	if c.partial {
		next = c.frontTill
	} else {
		// not later than the first hold of this pass
		c.front, c.frontTill = c.offset, c.started.Add(firstHold)
	}
	c.offset = 0
	for key, h := range c.held {
		switch late := now.Sub(h.till); {
		case late < 0:
			next = earliest(next, h.till)
		case late > maxHold:
			delete(c.held, key) // somebody else has taken it out of the set
		}
	}
	return next
}

// isHeld tells whether a member is to be left alone for now.
func (c *cursor) isHeld(member string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) == 0 {
		return false
	}
	h, ok := c.held[maphash.String(c.seed, member)]
	return ok && now.Before(h.till)
}

// isKnown tells whether a member could not be moved before.
func (c *cursor) isKnown(member string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) == 0 {
		return false
	}
	_, known := c.held[maphash.String(c.seed, member)]
	return known
}

// attempt notes the member that is tried now, in place of the one before.
func (c *cursor) attempt(member string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trying = member
}

// hold leaves a member alone for a while; first tells whether this is news.
func (c *cursor) hold(member string, now time.Time) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holdLocked(member, now)
}

// holdLocked is hold; c.mu is held.
func (c *cursor) holdLocked(member string, now time.Time) (first bool) {
	if c.held == nil {
		c.seed = maphash.MakeSeed()
	}
	if c.held == nil || len(c.held) >= maxHeld {
		c.held = make(map[uint64]hold)
	}
	key := maphash.String(c.seed, member)
	h, known := c.held[key]
	h.wait = min(maxHold, max(firstHold, 2*h.wait))
	h.till = now.Add(h.wait)
	c.held[key] = h
	return !known
}

// release forgets members that are gone, or that no fault of theirs has kept.
func (c *cursor) release(members []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) == 0 {
		return
	}
	for _, m := range members {
		delete(c.held, maphash.String(c.seed, m))
	}
}
