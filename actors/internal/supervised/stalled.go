package supervised

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/tree"
)

// Stall is an actor that does not work.
type Stall struct {
	Path, Role, Capsule string
	State               tree.State    // StateRunning: its messages wait
	Waiting             int           // messages, if it is running
	Strategy            string        // that it waits for, if it does
	For                 time.Duration // it has lasted
}

// Stalled lists the actors, parents before children, that for limit or longer have been
// neither at work nor waiting for a restart that is due later, have waited for their
// strategy, or have taken no message although some wait.
func (s *System) Stalled(now time.Time, limit time.Duration) (all []Stall) {
	for _, c := range s.all() {
		if stall, ok := c.stalled(now); ok && stall.For >= limit {
			all = append(all, stall)
		}
	}
	slices.SortFunc(all, func(a, b Stall) int { return comparePaths(a.Path, b.Path) })
	return all
}

func (c *node) stalled(now time.Time) (Stall, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stall := Stall{Path: c.path, Role: c.role, Capsule: c.capsule}
	stall.State, _ = c.shownLocked(now)
	since := c.since
	switch {
	case c.until.After(now): // its restart is due
		return stall, false
	case !c.stuck.IsZero():
		since, stall.Strategy = c.stuck, c.stuckIn
	case stall.State == tree.StateHeld, stall.State == tree.StateSuspended:
		since = c.kept
	case stall.State != tree.StateRunning:
		since = later(since, c.until)
	default:
		if stall.Waiting = max(0, c.depth()); stall.Waiting == 0 {
			return stall, false
		}
		since = later(since, c.proxy.s.began.Add(time.Duration(c.moved.Load())))
	}
	stall.For = now.Sub(since)
	return stall, true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// moves notes that the mailbox moves: a message is taken from it, or is the first in it.
func (c *node) moves() { c.moved.Store(int64(time.Since(c.proxy.s.began))) }

// keepsLocked notes since when the mailbox keepsLocked messages from the actor.
func (c *node) keepsLocked() {
	switch keeps := c.box.Keeps(); {
	case !keeps:
		c.kept = time.Time{}
	case c.kept.IsZero():
		c.kept = time.Now()
	}
}

// gateMoved notes that the mailbox was gated, or is no longer, and returns the actor.
func (c *node) gateMoved() actor.Actor {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepsLocked()
	return c.inner
}
