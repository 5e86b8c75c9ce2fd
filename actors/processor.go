package actors

import "github.com/asynkron/protoactor-go/actor"

// processor is the control plane of one slot: idle → running → idle, or crashed
// after a job that panicked. The job itself runs in a goroutine and settles
// itself; the unit is in the slot and the ledger, never in this actor. Jobs are
// started without a message to it, and only while it is live and nobody holds it back.
type processor struct {
	c     *capsule
	index int
	box   *mailbox
	ended bool // Restarting or Stopping
	down  bool // crashed; up again with the next message if the strategy resumes it
}

func (p *processor) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		p.box = p.c.slotUp(p.index, ctx.Self())
		p.step(ctx)
	case wake, quiet:
		if p.ended {
			return
		}
		if p.down { // resumed
			p.down = false
			p.c.slotUp(p.index, ctx.Self())
		}
		p.step(ctx)
	case *actor.Restarting, *actor.Stopping:
		p.ended = true
		p.c.slotDown(p.index)
	}
}

// crashed is called in the mailbox's goroutine after a panic, before the
// strategy decides: the slot is given no work meanwhile, and a doorbell is left
// for the case that the strategy resumes this instance.
func (p *processor) crashed() {
	p.down = true
	p.c.slotDown(p.index)
	p.box.ring()
}

func (p *processor) step(ctx actor.Context) {
	next, crash := p.c.next(p.index)
	switch next {
	case stepNone:
	case stepCrash:
		panic(crash)
	case stepStop:
		ctx.Stop(ctx.Self())
	}
}
