package actors

import (
	"context"
	"runtime"
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
	pid    *actor.PID
	box    *mailbox // of that actor; nil before its first start
	live   bool     // the actor is started and not stopping: it may be given work
	idle   bool     // it is in capsule.idle

	// At most one of the next three is set.
	pending *work                // offered, to be started
	running *work                // its goroutine is at work
	crash   *supervisor.JobCrash // the last job panicked: the actor is to crash of it
}

func (s *slot) free() bool {
	return s.live && s.pending == nil && s.running == nil && s.crash == nil
}

// slotUp is called by a processor that has started.
func (c *capsule) slotUp(i int, pid *actor.PID) {
	c.mu.Lock()
	s := c.slots[i]
	s.box = c.d.tree.box(pid.GetId())
	s.pid = pid // by the actor itself: a doorbell rung before its parent knows the PID would be lost
	s.live = true
	s.crash = nil // a crash is over once the next incarnation runs
	c.enlist(s)
	c.dispatch()
	c.mu.Unlock()
	c.ring(c.fetcherPID())
}

// slotDown is called when the processor restarts or ends. A pending unit stays
// for the next incarnation; a running job goes on and is adopted by it.
func (c *capsule) slotDown(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[i]
	s.live = false
	c.delist(s)
}

// slotGone is called when a processor has crashed, or ended for good: what was
// offered to it goes to another.
func (c *capsule) slotGone(i int) {
	c.mu.Lock()
	s := c.slots[i]
	s.live = false
	c.delist(s)
	if s.pending != nil {
		c.inbox = append([]*work{s.pending}, c.inbox...)
		s.pending = nil
		c.dispatch()
	}
	c.mu.Unlock()
	c.ring(c.fetcherPID())
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
	for k, i := range c.idle {
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
	stepStart             // the returned unit is to be started
	stepCrash             // the returned crash is to be raised
	stepStop              // quiet, and nothing left to do
)

// next decides the step of processor i, and takes what it returns.
func (c *capsule) next(i int) (step, *work, *supervisor.JobCrash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[i]
	switch {
	case s.crash != nil && c.quiet:
		s.crash = nil
		return stepStop, nil, nil
	case s.crash != nil:
		crash := s.crash
		s.live = false // until the next incarnation is up
		return stepCrash, nil, crash
	case s.running != nil:
		return stepNone, nil, nil
	case s.pending != nil:
		return stepStart, c.begin(s), nil
	case c.quiet:
		return stepStop, nil, nil
	}
	return stepNone, nil, nil
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
// that is held back, or gone, by then: then it starts the unit when it can.
func (c *capsule) launch(s *slot) {
	turn.Go(c.d.identity, s.pid.GetId(), func() {
		c.mu.Lock()
		var w *work
		switch {
		case s.pending == nil: // somebody else has seen to it
		case s.live && !s.box.keeps():
			w = c.begin(s)
		default:
			c.ring(s.pid)
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
	take, want, owner := c.due() && !c.fetchBox.keeps(), 0, c.fetch
	fetch := !take && (c.due() || c.unheard())
	switch {
	case take:
		want = c.beginCall()
	case fetch:
		c.rung = true
	}
	bell := crash != nil || c.quiet
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
		c.ring(s.pid)
		c.d.ringLauncher()
	}
	if fetch || bell {
		c.ring(c.fetcherPID())
	}
	return next, late
}
