package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// orphan is an owner with its places.
type orphan struct {
	id    string
	slots []keys.Slot
	names map[keys.Slot][]string // queues
}

// unlisted are the owners that are registered and that the index of expiries lacks.
func (r *Rescuer) unlisted(ctx context.Context, index string) ([]string, error) {
	ids, err := r.registered(ctx)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	listed, err := r.rdb.ZRange(ctx, index, 0, -1).Result()
	slices.Sort(listed)
	return slices.DeleteFunc(ids, func(id string) bool {
		_, found := slices.BinarySearch(listed, id)
		return found
	}), err
}

// registered are the ids of all owners. On a cluster every queue is asked as well: the
// node of the registry may have fallen back.
func (r *Rescuer) registered(ctx context.Context) ([]string, error) {
	registries := []string{keys.CommonOf("", r.cluster).Owners}
	if r.cluster {
		names, err := r.queues(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			registries = append(registries, keys.SlotOf(name, true).Registry())
		}
	}
	var ids []string
	for _, key := range registries {
		some, err := r.rdb.HKeys(ctx, key).Result()
		if err != nil {
			return nil, err
		}
		ids = append(ids, some...)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
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

// find reads the registry of an owner.
func (r *Rescuer) find(ctx context.Context, id string) (*orphan, error) {
	o := &orphan{id: id, names: make(map[keys.Slot][]string)}
	text, err := r.rdb.HGet(ctx, keys.CommonOf(id, r.cluster).Owners, id).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	var queues []string
	if text != "" {
		reg, err := parseRegistered(id, text)
		if err != nil {
			return nil, err
		}
		if queues = reg.Queues; !r.cluster {
			o.add(keys.Slot{}, reg.Queues...)
			return o, nil
		}
	} else if !r.cluster { // somebody has deleted the registry; the place tells its queues
		o.add(keys.Slot{})
		return o, nil
	} else if queues, err = r.queues(ctx); err != nil {
		return nil, err
	}
	for _, name := range queues {
		s := keys.SlotOf(name, true)
		text, err := r.rdb.HGet(ctx, s.Registry(), id).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, err := parseRegistered(id, text); err != nil {
			return nil, err
		}
		o.add(s, name)
	}
	return o, nil
}

func (o *orphan) add(s keys.Slot, queues ...string) {
	o.slots = append(o.slots, s)
	o.names[s] = queues
}

func parseRegistered(id, text string) (reg registered, err error) {
	if json.Unmarshal([]byte(text), &reg) != nil || reg.Layout != keys.Layout {
		return reg, &unknownLayout{id, text}
	}
	return reg, nil
}

// unknownLayout is an entry of the registry that another version wrote.
type unknownLayout struct{ id, text string }

func (e *unknownLayout) Error() string {
	return fmt.Sprintf("the registry says %q of %s, expected layout %d: it is left alone", e.text, e.id, keys.Layout)
}

func (*unknownLayout) RedisError() {}
