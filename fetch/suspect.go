package fetch

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

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
	names := f.set.Load().names
	there := make([]*redis.IntCmd, len(names))
	_, err := f.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, name := range names {
			there[i] = pipe.Exists(ctx, in.indexOf(name).slot.Suspects(name))
		}
		return nil
	})
	if err != nil && !redisconn.IsReply(err) {
		return false, err
	}
	var with []string // queues
	for i, name := range names {
		if there[i].Val() > 0 {
			with = append(with, name)
		}
	}
	if len(with) == 0 {
		return false, nil
	}
	paused, err := f.rdb.SMembers(ctx, keys.Paused).Result()
	if err != nil && !redisconn.IsReply(err) {
		return false, err
	}
	return slices.ContainsFunc(with, func(name string) bool { return !slices.Contains(paused, name) }), nil
}

// TakeSuspect takes one; see Isolator. Those of a paused queue wait.
func (f *fetcher) TakeSuspect(ctx context.Context) (*Unit, error) {
	units, err := f.take(ctx, "take a suspect", request{n: 1, suspect: true})
	if len(units) == 0 {
		return nil, err
	}
	return &units[0], nil
}
