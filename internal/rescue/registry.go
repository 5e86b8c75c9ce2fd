package rescue

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// ownerIndex is the in-progress index of an owner in one slot.
type ownerIndex struct {
	keys.Slot
	queues []string
	mark   string
}

// unlisted are the owners that are registered and that the expiries lack. On a
// cluster every queue is asked as well: the node of the registry may have fallen back.
func (r *Rescuer) unlisted(ctx context.Context) (ids []string, err error) {
	registries := []string{r.common.Owners}
	if r.cluster {
		names, err := r.queues(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			registries = append(registries, keys.SlotOf(name, true).Registry())
		}
	}
	for i, key := range registries {
		some, err := r.rdb.HKeys(ctx, key).Result()
		if err != nil && i > 0 && ctx.Err() == nil {
			continue // its master is away: the others tell of the rest
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, some...)
	}
	slices.Sort(ids)
	listed, err := r.rdb.ZRange(ctx, r.common.Expiries, 0, -1).Result()
	slices.Sort(listed)
	return slices.DeleteFunc(slices.Compact(ids), func(id string) bool {
		_, found := slices.BinarySearch(listed, id)
		return found || r.said[id]
	}), err
}

// queues are those that are known, and those of this process.
func (r *Rescuer) queues(ctx context.Context) ([]string, error) {
	names, err := r.rdb.SMembers(ctx, keys.Queues).Result()
	if err != nil {
		return nil, err
	}
	names = append(names, r.cfg.Queues...)
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return strings.ContainsAny(name, "{}") }), nil
}

// find reads the registry of an owner. Somebody may have deleted it: on one server the index
// tells its queues, on a cluster those of all known queues are looked at.
func (r *Rescuer) find(ctx context.Context, id string) (indexes []ownerIndex, err error) {
	queues, err := r.entry(ctx, r.common.Owners, id)
	if !r.cluster && (err == nil || errors.Is(err, redis.Nil)) {
		return []ownerIndex{{queues: queues}}, nil
	}
	if errors.Is(err, redis.Nil) {
		queues, err = r.queues(ctx)
	}
	if err != nil {
		return nil, err
	}
	var away error // of a master; the other indexes are rescued
	for i := range queues {
		s := keys.SlotOf(queues[i], true)
		switch _, err := r.entry(ctx, s.Registry(), id); {
		case err == nil:
			indexes = append(indexes, ownerIndex{Slot: s, queues: queues[i : i+1]})
		case errors.Is(err, redis.Nil):
		case errors.Is(err, errLayout) || ctx.Err() != nil:
			return nil, err
		default:
			away = err
		}
	}
	return indexes, away
}

const errLayout = refusal("another version of troupe has written the registry")

// entry is what a registry says of an owner.
func (r *Rescuer) entry(ctx context.Context, registry, id string) ([]string, error) {
	text, err := r.rdb.HGet(ctx, registry, id).Result()
	if err != nil {
		return nil, err
	}
	var reg keys.Registered
	if json.Unmarshal([]byte(text), &reg) != nil || reg.Layout != keys.Layout {
		if !r.said[id] {
			r.said[id] = true
			r.cfg.Logger.Warn().Str("fetcher", id).Str("entry", text).
				Msg("another version of troupe has written this; its jobs in progress are left alone")
		}
		return nil, errLayout
	}
	return reg.Queues, nil
}
