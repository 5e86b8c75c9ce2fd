package actors

import (
	"github.com/asynkron/protoactor-go/actor"
)

// processor is the control plane of one slot: idle → running → idle, or crashed
// after a job that panicked. The job itself runs in a goroutine and settles
// itself; the unit is in the slot and the ledger, never in this actor.
type processor struct {
	c     *capsule
	index int
}

func (p *processor) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		p.c.slotUp(p.index, ctx.Self())
		p.step(ctx)
	case wake, quiet:
		p.step(ctx)
	case *actor.Restarting, *actor.Stopping:
		p.c.slotDown(p.index)
	}
}

func (p *processor) step(ctx actor.Context) {
	next, w, crash := p.c.next(p.index)
	switch next {
	case stepNone:
	case stepStart:
		p.c.d.jobs.Add(1)
		go p.c.execute(p.index, w)
	case stepCrash:
		panic(crash)
	case stepStop:
		ctx.Stop(ctx.Self())
	}
}
