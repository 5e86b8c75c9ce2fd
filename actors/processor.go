package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/supervised"
)

// processor owns the worker of one slot: it starts it, stops it, and crashes of what a
// job has left. The job itself runs in the worker's goroutine and settles itself; no
// message carries it, and user code never runs in this actor.
type processor struct {
	c    *capsule
	slot *slot
	box  *supervised.Mailbox
	down bool // Restarting or Stopping, or crashed
}

func (p *processor) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		p.box = p.c.env.System.Mailbox(ctx.Self().GetId())
		p.c.pool.started(p.slot, p.box)
		p.step(ctx)
	case supervised.Wake, quiet:
		p.step(ctx)
	case *actor.Restarting, *actor.Stopping:
		p.down = true
		p.c.pool.detach(p.slot)
	}
}

// step crashes or ends the processor if its slot is to. It may be called at any time.
func (p *processor) step(ctx actor.Context) {
	switch crash, done := p.c.pool.step(p.slot, p.down); {
	case done:
		ctx.Stop(ctx.Self())
	case crash != nil && !p.down:
		panic(crash)
	}
}

// Crashed is called in the mailbox's goroutine after a panic, before the strategy
// decides: no job begins meanwhile. The message is for the case that the strategy
// resumes this instance.
func (p *processor) Crashed() {
	p.c.pool.crashed(p.slot)
	p.box.Wake()
}

// Paused is called when the actor is kept from taking messages: its worker takes no
// jobs. Once it takes them again, a message tells it to go on.
func (p *processor) Paused() { p.c.pool.detach(p.slot) }
