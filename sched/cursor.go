package sched

import (
	"strconv"
	"sync"
	"time"
)

const (
	// A pass starts behind the members that were left alone, but for one in fullPass
	// and when one of them is to be tried again. What is younger than younger is
	// always looked at: clocks of those who push may go wrong by as much.
	fullPass = 15 * time.Second
	younger  = 10 * time.Second
)

// cursor is what a Scheduler remembers of one set between batches. It is only
// a hint: forgetting it costs time, never a job.
type cursor struct {
	mu sync.Mutex // never held while waiting
	page
	held

	// A pass goes through all that is due, batch after batch.
	passing bool
	from    string // the lowest score
	skip    int    // members from there on that stay
	newest  bool   // the next batch takes the newest

	floor string    // where the next pass starts before full, "" at the bottom
	full  time.Time // when a pass starts at the bottom again

	// The member at which user's code is at work, "" if at none. Should that end
	// the goroutine, the next batch goes past the member and does not end likewise.
	trying string
}

const bottom = "-inf"

// begin returns what to ask for the next batch.
func (c *cursor) begin(now time.Time, batch int) (a ask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trying != "" {
		c.held.add(c.trying, now)
		c.trying = ""
	}
	if !c.passing {
		c.passing, c.from, c.skip, c.newest = true, c.lowestLocked(now), 0, false
		if c.from == bottom {
			c.full = now.Add(fullPass)
		}
	}
	a.from, a.newest, a.timeout = []string{c.from}, c.newest, promoteTimeout
	if !a.newest {
		a.skip = c.skip
	}
	a.count, a.bytes = c.page.ask(batch)
	return a
}

// end records a batch: how many of its members stay, and whether more may be due.
// It returns when the first held member is to be tried again, zero if none is held.
//
// While there is a backlog every other batch takes the newest: what has become due
// just now does not wait behind it.
func (c *cursor) end(now time.Time, a ask, redisNow string, stay int, more bool, batch int) (again time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.page.grow(batch)
	if !a.newest {
		c.skip += stay
	}
	if more {
		c.newest = !c.newest && c.page.whole()
		return time.Time{}
	}
	c.passing, c.floor = false, ""
	if first := c.held.first(now); !first.IsZero() {
		c.floor = "(" + strconv.FormatFloat(float64(micros(redisNow)-younger.Microseconds())/1e6, 'f', 6, 64)
		c.full = earliest(c.full, first)
		again = c.full
	}
	return again
}

// leave ends a pass that somebody else is making as well.
func (c *cursor) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passing, c.floor = false, ""
}

// lowest is the score from which on there is something to do.
func (c *cursor) lowest(now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lowestLocked(now)
}

// lowestLocked is lowest; c.mu is held.
func (c *cursor) lowestLocked(now time.Time) string {
	if c.floor != "" && now.Before(c.full) {
		return c.floor
	}
	return bottom
}

// attempt notes the member that is tried now, in place of the one before.
func (c *cursor) attempt(member string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trying = member
}

// isHeld tells whether a member is to be left alone for now, and whether it could
// not be moved before.
func (c *cursor) isHeld(member string, now time.Time) (left, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held.has(member, now)
}

// hold leaves a member alone for a while; first tells whether this is news.
func (c *cursor) hold(member string, now time.Time) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held.add(member, now)
}

// release forgets members that are gone, or that no fault of theirs has kept.
func (c *cursor) release(members []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held.remove(members)
}

// lose notes that a batch was lost on its way.
func (c *cursor) lose(newest bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.page.lost, c.page.atTop = true, newest
}

func (c *cursor) wasLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.page.lost
}

// shrinkPage is page.shrink.
func (c *cursor) shrinkPage(size int) (tooLarge bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = false
	return c.page.shrink(size)
}

// prepared notes that only n members of a batch could be prepared in time.
func (c *cursor) prepared(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.page.count = n
}
