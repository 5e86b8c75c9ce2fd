package fetch

import (
	"context"
	"errors"
	"fmt"
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
	names := f.set.Load().names
	there := make([]*redis.IntCmd, len(names))
	_, err := f.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, name := range names {
			there[i] = pipe.Exists(ctx, in.indexOf(name).slot.Suspects(name))
		}
		return nil
	})
	if err != nil && !isReply(err) {
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
	if err != nil && !isReply(err) {
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

// ReturnSuspects empties the lists of suspects; see rescue.Rescuer.
func (r *rescuer) ReturnSuspects(ctx context.Context, queues ...string) (map[string]int, error) {
	names, err := r.queues(ctx)
	if err != nil {
		return nil, fmt.Errorf("return suspects: %w", err)
	}
	for _, name := range append(slices.Clip(names), queues...) {
		queue, _ := splitName(name)
		names = append(names, queue)
	}
	slices.Sort(names)
	returned := make(map[string]int)
	var failed []error
	for _, name := range slices.Compact(names) {
		n, err := r.returnSuspects(ctx, name)
		if n > 0 {
			returned[name] = n
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("return suspects of queue %s: %w", name, err))
			if !isReply(err) {
				break
			}
		}
	}
	return returned, errors.Join(failed...)
}

func (r *rescuer) returnSuspects(ctx context.Context, queue string) (moved int, err error) {
	suspects := keys.SlotOf(queue, r.cluster).Suspects(queue)
	if n, err := r.rdb.Exists(ctx, suspects).Result(); err != nil || n == 0 {
		return 0, err
	}
	for left := int64(1); left > 0; {
		n, err := unsuspectScript.Run(ctx, r.rdb, []string{suspects, keys.Queue(queue)}, maxBatch).Int64Slice()
		if err != nil {
			return moved, err
		}
		moved, left = moved+int(n[0]), n[1]
	}
	_, err = r.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		put(ctx, pipe, "SADD", keys.Queues, queue)
		pipe.SRem(ctx, keys.Queues, keys.Suspects(queue))
		return nil
	})
	return moved, err
}
