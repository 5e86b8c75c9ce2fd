package actors

import (
	"github.com/asynkron/protoactor-go/actor"
)

// fetcher decides when to take work. It holds nothing: demand is derived from
// the idle slots, calls run in goroutines (one Take and one Wait at most, see
// capsule.pump; a Wait that brings news makes the Take itself), units go to the capsule's inbox.
type fetcher struct{ c *capsule }

func (f *fetcher) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		f.c.mu.Lock()
		f.c.fetch, f.c.fetchBox, f.c.fetchUp = ctx.Self(), f.c.d.tree.box(ctx.Self().GetId()), true
		f.c.mu.Unlock()
		f.step(ctx)
	case *actor.Restarting, *actor.Stopping:
		f.c.mu.Lock()
		f.c.fetchUp = false
		f.c.mu.Unlock()
	case wake, quiet:
		f.step(ctx)
	}
}

func (f *fetcher) step(ctx actor.Context) {
	if f.c.fetchEnded() {
		ctx.Stop(ctx.Self())
		return
	}
	f.c.pump(ctx.Self())
}
