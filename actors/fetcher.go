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
	c := f.c
	switch ctx.Message().(type) {
	case *actor.Started:
		c.mu.Lock()
		c.fetchBox, c.fetchUp = c.env.System.Mailbox(ctx.Self().GetId()), true
		c.mu.Unlock()
		f.step(ctx)
	case supervised.Wake, quiet:
		f.step(ctx)
	case *actor.Restarting, *actor.Stopping:
		c.mu.Lock()
		c.fetchUp = false
		c.mu.Unlock()
	}
}

func (f *fetcher) step(ctx actor.Context) {
	c := f.c
	c.mu.Lock()
	ended := c.quiet && !c.fetching
	if !ended && !c.fetching {
		c.fetching = true
		c.env.System.Spawn(c.path("fetcher"), c.fetchLoop)
	}
	c.wakeFetch()
	c.mu.Unlock()
	if ended {
		ctx.Stop(ctx.Self())
	}
}

// Paused is called when the actor is kept from taking messages: no call begins.
func (f *fetcher) Paused() {}
