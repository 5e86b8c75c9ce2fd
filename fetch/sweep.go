package fetch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupehq/troupe/internal/keys"
)

// sweepPage is how many keys or fields one step of a sweep asks for.
const sweepPage = 500

// Sweep makes one round that also finds what no index knows: private places of
// fetchers that are not registered, and registered fetchers that the index of
// leases lacks, as after a part of troupe's keys was deleted by hand. It walks
// through all keys of the database, in pages: for the start and once an hour.
func (r *Rescuer) Sweep(ctx context.Context) (Rescued, error) {
	err := r.indexRegistered(ctx)
	if err == nil {
		err = r.indexOrphans(ctx)
	}
	if err != nil {
		return Rescued{Next: r.next(-1)}, fmt.Errorf("sweep: %w", err)
	}
	return r.Rescue(ctx)
}

// indexRegistered gives every registered fetcher its entry in the index.
func (r *Rescuer) indexRegistered(ctx context.Context) error {
	for cursor := uint64(0); ; {
		fields, next, err := r.rdb.HScan(ctx, r.reg.procs, cursor, "", sweepPage).Result()
		if err != nil {
			return err
		}
		var ids []any
		for i := 0; i < len(fields); i += 2 {
			ids = append(ids, fields[i])
		}
		for page := range slices.Chunk(ids, sweepPage) {
			if err := indexScript.Run(ctx, r.rdb, []string{r.reg.leases}, page...).Err(); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// indexOrphans gives every private place whose owner is unknown a tombstone and
// an entry in the index, from where a round takes it.
func (r *Rescuer) indexOrphans(ctx context.Context) error {
	queues := make(map[string][]string) // by fetcher id
	var laps []any
	err := r.eachPlace(ctx, func(found []string) {
		for _, key := range found {
			if name, ok := keys.ParseLap(key); ok {
				laps = append(laps, name)
				continue
			}
			queue, id, ok := keys.ParseWIP(key)
			if !r.reg.cluster { // where suspects have no place of their own
				queue = strings.TrimSuffix(queue, keys.SuspectsSuffix) // a rescue looks at both
			}
			if ok && !slices.Contains(queues[id], queue) {
				queues[id] = append(queues[id], queue)
			}
		}
	})
	if err != nil {
		return err
	}
	if len(laps) > 0 {
		if err := r.rdb.SAdd(ctx, keys.Laps, laps...).Err(); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(queues)) {
		names := queues[id]
		slices.Sort(names)
		listed, err := json.Marshal(names)
		if err != nil {
			return err
		}
		err = reindexScript.Run(ctx, r.rdb, []string{r.reg.procs, r.reg.leases, r.reg.lease(id), r.reg.fenced(id)},
			id, string(listed), tombstoneTime.Milliseconds()).Err()
		if err != nil {
			return err
		}
	}
	return nil
}
