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
			lengths[i] = pipe.Exists(ctx, in.placeOf(i).slot.Suspects(name))
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
	var got *Unit
	err := f.each(ctx, "take a suspect", func(in *incarnation) (err error) {
		if got, err = f.takeSuspect(ctx, in); err != nil || got == nil {
			return err
		}
		fine, err := f.vouch(ctx, in, *got)
		switch {
		case err != nil:
			got = nil
		case !fine:
			got = f.stashedSuspect(in)
		}
		return err
	})
	return got, err
}

func (f *fetcher) takeSuspect(ctx context.Context, in *incarnation) (*Unit, error) {
	for _, p := range in.places {
		if got := f.stashedSuspect(in); got != nil {
			return got, nil
		}
		wants := make([]Want, len(p.queues))
		for i, q := range p.queues {
			wants[i] = Want{Queue: f.names[q], N: 1}
		}
		if f.cluster {
			paused, err := f.rdb.SIsMember(ctx, keys.Paused, f.names[p.queues[0]]).Result()
			if err != nil || paused {
				continue
			}
		}
		for len(wants) > 0 {
			page := wants[:min(queuesCall, len(wants))]
			wants = wants[len(page):]
			reply, err := p.take(ctx, &request{n: 1, bytes: 1, wants: page, suspect: true})
			f.restash(in, reply.units)
			if err != nil {
				return nil, err
			}
			if got := f.stashedSuspect(in); got != nil {
				return got, nil
			}
		}
	}
	return nil, nil
}

// stashedSuspect is one in hand, nil if there is none.
func (f *fetcher) stashedSuspect(in *incarnation) *Unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cur != in {
		return nil
	}
	for i, u := range f.stash {
		if u.Suspect {
			f.stash = slices.Delete(f.stash, i, i+1)
			return &u
		}
	}
	return nil
}
