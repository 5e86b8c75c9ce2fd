package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/supervised"
)

// fetcher owns the fetch goroutine of its capsule (intake.go), which outlives a restart
// as a worker does, and fetches nothing while the fetcher is down or kept from taking
// messages.
type fetcher struct{ c *capsule }

func (f *fetcher) Receive(ctx actor.Context) {
	in := &f.c.intake
	switch ctx.Message().(type) {
	case *actor.Started:
		in.started(f.c.env.System.Mailbox(ctx.Self().GetId()))
		f.step(ctx)
	case supervised.Wake, quiet:
		f.step(ctx)
	case *actor.Restarting, *actor.Stopping:
		in.stopped()
	}
}

func (f *fetcher) step(ctx actor.Context) {
	if f.c.intake.step() {
		ctx.Stop(ctx.Self())
	}
}

// Paused is called when the actor is kept from taking messages: no call begins.
func (f *fetcher) Paused() {}
