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
		p.started(ctx)
	case supervised.Wake, quiet:
		p.step(ctx)
	case *actor.Restarting, *actor.Stopping:
		p.down = true
		p.c.detach(p.slot.index)
	}
}

func (p *processor) started(ctx actor.Context) {
	c, s := p.c, p.slot
	p.box = c.env.System.Mailbox(ctx.Self().GetId())
	c.mu.Lock()
	s.box, s.crash = p.box, nil // a crash is over once the next incarnation runs
	c.mu.Unlock()
	p.step(ctx)
}

// step does what the slot asks for. It may be called at any time.
func (p *processor) step(ctx actor.Context) {
	c, s := p.c, p.slot
	c.mu.Lock()
	crash, done := s.crash, (c.quiet || s.retired) && s.worker == nil
	switch {
	case crash != nil:
		s.attached = false // until the next incarnation runs
	case !p.down:
		c.attach(s)
	}
	s.absent = done && !c.quiet
	c.mu.Unlock()
	switch {
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
	p.c.mu.Lock()
	p.slot.crash = nil
	p.c.mu.Unlock()
	p.c.detach(p.slot.index)
	p.box.Wake()
}

// Paused is called when the actor is kept from taking messages: its worker takes no
// jobs. Once it takes them again, a message tells it to go on.
func (p *processor) Paused() { p.c.detach(p.slot.index) }
