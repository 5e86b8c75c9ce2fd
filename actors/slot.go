package actors

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/turn"
	"github.com/troupehq/troupe/supervisor"
)

// slot is the durable half of a processor: it outlives every incarnation of the
// actor. All fields are guarded by capsule.mu.
type slot struct {
	index  int
	labels context.Context // of its job's goroutine in profiles
	pid    *actor.PID      // of its actor; nil before its first start, like the next
	box    *mailbox
	live   bool // the actor is started and not stopping: it may be given work
	idle   bool // it is in capsule.idle

	// At most one of the next three is set.
	pending *work                // offered, about to be started
	running *work                // its goroutine is at work
	crash   *supervisor.JobCrash // the last job panicked: the actor is to crash of it
}

func (s *slot) free() bool {
	return s.live && s.pending == nil && s.running == nil && s.crash == nil
}

// slotUp is called by a processor that has started. It returns the actor's mailbox.
func (c *capsule) slotUp(i int, pid *actor.PID) *mailbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[i]
	s.pid, s.box = pid, c.d.tree.box(pid.GetId())
	s.live = true
	s.crash = nil // a crash is over once the next incarnation runs
	c.enlist(s)
	c.dispatch()
	c.fetchBox.ring()
	return s.box
}

// slotDown is called when the processor has crashed, restarts or ends: what was
// offered to it goes to another; a running job goes on and is adopted by the next
// incarnation.
func (c *capsule) slotDown(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[i]
	s.live = false
	c.delist(s)
	if s.pending != nil {
		c.withdraw(s)
	}
	c.fetchBox.ring()
}

// withdraw takes back the unit that is pending for s, for another slot. c.mu is held.
func (c *capsule) withdraw(s *slot) {
	c.inbox = append([]*work{s.pending}, c.inbox...)
	s.pending = nil
	c.dispatch()
}

// enlist puts a free slot on the idle list. c.mu is held.
func (c *capsule) enlist(s *slot) {
	if !c.quiet && s.free() && !s.idle {
		s.idle = true
		c.idle = append(c.idle, s.index)
	}
}

// delist takes a slot off the idle list. c.mu is held.
func (c *capsule) delist(s *slot) {
	if !s.idle {
		return
	}
	s.idle = false
	for k, i := range slices.Backward(c.idle) {
		if i == s.index {
			c.idle = append(c.idle[:k], c.idle[k+1:]...)
			return
		}
	}
}

// step is what a processor does next.
type step int

const (
	stepNone  step = iota // idle, or its job runs
	stepCrash             // the returned crash is to be raised
	stepStop              // quiet, and nothing left to do
)

// next decides the step of processor i, and takes what it returns.
func (c *capsule) next(i int) (step, *supervisor.JobCrash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[i]
	switch {
	case s.crash != nil && c.quiet:
		s.crash = nil
		return stepStop, nil
	case s.crash != nil:
		crash := s.crash
		s.live = false // until the next incarnation is up
		return stepCrash, crash
	case s.running != nil || s.pending != nil:
		return stepNone, nil
	case c.quiet:
		return stepStop, nil
	}
	c.enlist(s) // it was passed over while it was held or suspended
	c.dispatch()
	if c.due() || c.unheard() {
		c.rung = true
		c.fetchBox.ring()
	}
	return stepNone, nil
}

// begin takes the unit that is pending for s, to be run by the caller. c.mu is held.
func (c *capsule) begin(s *slot) *work {
	w := s.pending
	s.pending, s.running = nil, w
	c.d.jobs.Add(1)
	c.dispatch()
	c.demand()
	return w
}

// launch starts the unit that is pending for s without a message to its actor, unless
// that is held or suspended by then: then the unit is another's.
func (c *capsule) launch(s *slot) {
	turn.Go(c.d.identity, s.box.cell.path, func() {
		c.mu.Lock()
		var w *work
		switch {
		case s.pending == nil: // the slot is down, or the capsule quiet
		case s.box.keeps():
			s.box.ring()
			c.withdraw(s)
		default:
			w = c.begin(s)
		}
		c.mu.Unlock()
		if w != nil {
			c.run(s.index, w)
		}
	})
}

// finish frees the slot of a job that has ended, with the crash it left. With
// again the slot goes straight on with the next unit that waits: it is returned,
// and whether others had their turn first. ack is the unit if it is to be acked.
func (c *capsule) finish(i int, crash *supervisor.JobCrash, again bool, ack *work, now time.Time) (next *work, late bool) {
	c.mu.Lock()
	if ack != nil {
		c.settler.acked(ack)
	}
	s := c.slots[i]
	s.running = nil
	c.pace.ended(now)
	if crash != nil && s.live {
		s.crash = crash
	}
	if again && !c.quiet && !c.held && len(c.inbox) > 0 && s.free() && !s.box.keeps() {
		next = c.pop()
		s.running = next
	} else {
		c.enlist(s)
		c.dispatch()
	}
	take, want, owner := c.callable(), 0, c.fetch
	fetch := !take && (c.due() || c.unheard())
	if take {
		want = c.beginCall()
	}
	bell := crash != nil || c.quiet
	if fetch || bell {
		c.rung = c.rung || fetch
		c.fetchBox.ring()
	}
	if bell {
		s.box.ring()
	}
	c.mu.Unlock()
	if take {
		c.d.spawn(owner, func() { c.takeCall(want) })
		if next != nil {
			runtime.Gosched() // jobs that never block would keep it waiting until none is left
		}
		late = true
	}
	if c.d.isolating.Load() {
		c.d.changes.ring()
	}
	if bell {
		c.d.ringLauncher()
	}
	return next, late
}
