package fetch

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

const suspectsSuffix = keys.SuspectsSuffix

// Suspects are jobs that a recovery policy has set apart, each in a list beside its
// queue. They are taken one by one and on demand, never by Take: what is fetched
// together must not be what may kill together.

// Suspects tells whether suspects wait; see Isolator.
func (f *fetcher) Suspects(ctx context.Context) (bool, error) {
	f.mu.Lock()
	in := f.cur
	stashed := slices.ContainsFunc(f.stash, func(u Unit) bool { return u.Suspect })
	f.mu.Unlock()
	if stashed {
		return true, nil
	}
	lengths := make([]*redis.IntCmd, len(f.names))
	var paused *redis.StringSliceCmd
	_, err := f.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, name := range f.names {
			lengths[i] = pipe.Exists(ctx, in.placeOf(name).slot.Suspects(name))
		}
		paused = pipe.SMembers(ctx, keys.Paused)
		return nil
	})
	if err != nil && !isReply(err) {
		return false, err
	}
	for i, name := range f.names {
		if lengths[i].Val() > 0 && !slices.Contains(paused.Val(), name) {
			return true, nil
		}
	}
	return false, nil
}

// TakeSuspect takes one; see Isolator. Those of a paused queue wait.
func (f *fetcher) TakeSuspect(ctx context.Context) (*Unit, error) {
	units, err := f.take(ctx, "take a suspect", request{n: 1, suspect: true})
	if len(units) == 0 {
		return nil, err
	}
	return &units[0], nil
}
