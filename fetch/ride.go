package fetch

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// Rider is a Fetcher whose renewal can travel with other commands: an idle
// process then makes one round trip for all of its signs of life, and learns on
// the way what it would have to ask for.
type Rider interface {
	Fetcher

	// Ride adds to p, a pipeline or a MULTI, what Renew does. end is to be called
	// once p has been sent, with or without success; when it returns an error the
	// lease is not known to be renewed, and Renew is the next to be called. It is
	// nil, and p as it was, while that has something to settle first.
	Ride(ctx context.Context, p redis.Pipeliner) (end func() (Seen, error))
}

// Seen is what a ride has come by.
type Seen struct {
	Expired  bool // the lease of a fetcher is over: there is work for a Rescuer
	Suspects bool // suspects of the fetcher's queues wait, or of paused ones: see Isolator
}

// Ride renews the lease on the way; see Rider.
func (f *reliable) Ride(ctx context.Context, p redis.Pipeliner) func() (Seen, error) {
	if !f.gate.enterNow() {
		return nil
	}
	f.mu.Lock()
	in, ready := f.cur, f.registered && !f.doubt && !f.amnesia && !f.closed
	stashed := len(f.suspects) > 0
	f.mu.Unlock()
	if !ready {
		f.gate.leave()
		return nil
	}
	lists := make([]string, len(f.names))
	for i, name := range f.names {
		lists[i] = keys.Queue(keys.Suspects(name))
	}
	renew := renewScript.Queue(ctx, p, []string{keys.Procs, keys.Leases, in.lease}, in.id, in.generation, f.ttl)
	suspects := p.Exists(ctx, lists...)
	return func() (Seen, error) {
		f.gate.leave()
		expired, err := renew.Int()
		if err != nil { // no doubt is left: a renewal that comes late takes nothing
			return Seen{}, err
		}
		return Seen{Expired: expired > 0, Suspects: stashed || suspects.Val() > 0}, nil
	}
}
