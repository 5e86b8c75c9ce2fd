package fetch

import (
	"context"
	"fmt"

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
	if env.Share > 0 {
		f.laps = newLaps(rdb, f.names, env.Share, f.sick)
	}
	f.peeks = newPeeks(func(w *wires) peekClient { return w.client(rdb, len(f.names)) }, f.names, f.sick)
	return f, nil
}

// furnish gives an incarnation the keys of its scripts.
func (f *reliable) furnish(in *incarnation) {
	in.head = append(in.head, nil, nil, 2+2*len(f.names), in.lease, keys.Paused)
	for _, name := range f.names {
		wip := keys.WIP(name, in.id)
		in.wips = append(in.wips, wip)
		in.head = append(in.head, keys.Queue(name), wip)
	}
	for _, name := range f.names {
		in.wips = append(in.wips, keys.WIP(keys.Suspects(name), in.id))
	}
}

// settleIn is nothing: a registration is all that a fetcher needs.
func (f *reliable) settleIn(context.Context, *incarnation) error { return nil }
