package sched

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe/internal/scores"
)

const (
	// A pass starts behind the members that were left alone, but for one in fullPass
	// and when one of them is to be tried again. What is younger than younger is
	// always looked at: clocks of those who push may go wrong by as much.
	fullPass = 15 * time.Second
	younger  = 10 * time.Second

	bottom = "-inf" // the lowest score
)

// cursor is what a Scheduler remembers of one set between batches. It is only
// a hint: forgetting it costs time, never a job.
type cursor struct {
	term *term

	mu sync.Mutex // held by who promotes
	page
	stuck

	// A pass goes through all that is due, batch after batch.
	passing bool
	from    string // the lowest score
	skip    int    // members from there on that stay
	newest  bool   // the next batch takes the newest
	full    time.Time
	floor   atomic.Pointer[floor]

	// The member at which user's code is at work, "" if at none. Should that end
	// the goroutine, the next batch goes past the member and does not end likewise.
	trying string
}

// floor is where passes start until a time comes. nil is the bottom.
type floor struct {
	score string
	till  time.Time
}

// lowest is the score from which on there is something to do.
func (c *cursor) lowest(now time.Time) string {
	if f := c.floor.Load(); f != nil && now.Before(f.till) {
		return f.score
	}
	return bottom
}

// begin returns what to ask for the next batch.
func (c *cursor) begin(now time.Time) ask {
	if c.trying != "" {
		c.stuck.add(c.trying, now)
		c.trying = ""
	}
	if !c.passing {
		c.passing, c.from, c.skip, c.newest = true, c.lowest(now), 0, false
		if c.from == bottom {
			c.full = now.Add(fullPass)
		}
	}
	a := ask{from: []string{c.from}, newest: c.newest, count: c.page.count, bytes: c.page.bytes, timeout: promoteTimeout}
	if !a.newest {
		a.skip = c.skip
	}
	return a
}

// end records a batch: how many of its members stay, and whether more may be due.
// It returns when the first stuck member is to be tried again, zero if there is none.
//
// While there is a backlog every other batch takes the newest: what has become due
// just now does not wait behind it.
func (c *cursor) end(now, redisNow time.Time, stay int, more bool) (again time.Time) {
	c.page.grow()
	if !c.newest {
		c.skip += stay
	}
	if more {
		c.newest = !c.newest && c.page.bytes >= maxPage // no batch was lost lately
		return time.Time{}
	}
	c.leave()
	if first := c.stuck.first(now); !first.IsZero() {
		again = earliest(c.full, first)
		c.floor.Store(&floor{"(" + scores.Format(scores.Of(redisNow.Add(-younger))), again})
	}
	return again
}

// leave ends a pass, so that the next one starts at the bottom.
func (c *cursor) leave() {
	c.passing = false
	c.floor.Store(nil)
}
