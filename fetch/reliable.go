package fetch

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// reliable keeps what it has taken in a hash per queue, receipt -> bytes, until
// it is settled. Who may touch these hashes is decided in Redis alone:
//
//   - its membership in the registry is the right to have a private place; a
//     rescuer removes it and leaves a tombstone, for ever;
//   - its lease holds a generation, and every script checks that. After a call
//     with an unknown outcome the fetcher asks what happened under a new
//     generation, so that the old call, should it still be on its way, is refused.
type reliable struct {
	owner
	rdb  *redis.Client
	bell *doorbell
	laps *laps // instead of the bell and the peeks; nil without Env.Share

	thrift thrift // guarded by owner.mu
	clock  clock  // guarded by owner.mu
}

// NewReliable is the Factory of the default fetcher: a unit stays in Redis,
// in a private place of the fetcher, until it is settled, and what a dead
// process had is put back by a Rescuer. It needs a *redis.Client (standalone
// or Sentinel) or a *redis.ClusterClient; Redis 6.2 or newer.
func NewReliable(env Env) (Fetcher, error) {
	if err := Validate(env.Queues); err != nil {
		return nil, err
	}
	if rdb, ok := env.Redis.(*redis.ClusterClient); ok && rdb != nil {
		return newCluster(env, rdb)
	}
	rdb, ok := env.Redis.(*redis.Client)
	if !ok || rdb == nil {
		return nil, fmt.Errorf("fetch: Redis is a %T, expected a *redis.Client or a *redis.ClusterClient: "+
			"the reliable fetcher opens connections of its own", env.Redis)
	}
	f := &reliable{rdb: rdb}
	if err := f.init(env, f); err != nil {
		return nil, err
	}
	f.bell = newDoorbell(rdb, env.Identity+"#"+env.Capsule, f.names)
	f.bell.opened = f.env.opened
	if env.Share > 0 {
		f.laps = newLaps(rdb, f.names, env.Share, f.sick)
		f.laps.opened = f.env.opened
	}
	f.peeks = newPeeks(func(w *wires) peekClient {
		peeks := w.client(rdb, len(f.names))
		f.env.opened(peeks)
		return peeks
	}, f.names, f.sick)
	return f, nil
}

// furnish gives an incarnation the keys of its scripts.
func (f *reliable) furnish(in *incarnation) {
	for _, name := range f.names {
		in.wips = append(in.wips, keys.WIP(name, in.id))
	}
	for _, name := range f.names {
		in.wips = append(in.wips, keys.WIP(keys.Suspects(name), in.id))
	}
	in.head = f.head(in, false, false)
	if f.env.Share > 0 { // the first incarnation is made before the laps
		in.lapHead = f.head(in, false, true)
	}
}

// head begins the arguments of a take: two free places, the number of keys and the
// keys. The queues of suspects and the laps come behind the queues, if they are to.
func (f *reliable) head(in *incarnation, suspects, laps bool) []any {
	n := len(f.names)
	wips := in.wips[:n:n]
	if suspects {
		wips = in.wips
	}
	if laps {
		wips = slices.Concat(wips, in.wips[:n])
	}
	head := append(make([]any, 0, 5+2*len(wips)), nil, nil, 2+2*len(wips), in.lease)
	for _, wip := range wips {
		head = append(head, wip)
	}
	head = append(head, keys.Paused)
	for _, name := range f.names {
		head = append(head, keys.Queue(name))
	}
	for _, name := range f.names {
		if suspects {
			head = append(head, keys.Queue(keys.Suspects(name)))
		}
	}
	for _, name := range f.names {
		if laps {
			head = append(head, keys.Lap(name))
		}
	}
	return head
}

// settleIn is nothing: a registration is all that a fetcher needs.
func (f *reliable) settleIn(context.Context, *incarnation) error { return nil }
