package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/parcel"
)

// Fetcher is the private place of one capsule of one of our processes: the jobs
// it has fetched and not settled, which are in no queue.
type Fetcher struct {
	ID      string   // IDENTITY#CAPSULE.INCARNATION
	Process string   // identity
	Queues  []string // those it fetches from

	// Alive: its lease runs. Else its jobs go back to their queues within a
	// minute, by any live process of ours.
	Alive bool
	Size  int64 // jobs in progress
}

// InProgress is a job that a Fetcher has taken.
type InProgress struct {
	Fetcher string // its ID
	Process string // identity
	Receipt string // ascends in the order of the fetches: by length, then by bytes
	Queue   string // the queue it was fetched from, and will go back to
	Job     JobRecord
}

// Fetchers returns all private places that are registered or wait for a rescue.
func (i *Inspector) Fetchers(ctx context.Context) ([]*Fetcher, error) {
	fetchers, err := i.fetchers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list fetchers: %w", err)
	}
	var cmds []redis.Cmder
	for _, f := range fetchers {
		cmds = append(cmds, redis.NewIntCmd(ctx, "exists", keys.Lease(f.ID)))
		for _, q := range f.Queues {
			cmds = append(cmds, redis.NewMapStringStringCmd(ctx, "hgetall", keys.WIP(q, f.ID)))
		}
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return nil, fmt.Errorf("list fetchers: %w", err)
	}
	for _, f := range fetchers {
		f.Alive = cmds[0].(*redis.IntCmd).Val() > 0
		for n := range f.Queues { // no more than a fetcher takes at once
			for field, value := range cmds[1+n].(*redis.MapStringStringCmd).Val() {
				f.Size += int64(parcel.Count(field, value))
			}
		}
		cmds = cmds[1+len(f.Queues):]
	}
	return fetchers, nil
}

// InProgress walks through the jobs in progress of all Fetchers: those that
// run, those that are about to, and those of processes that have died. It ends
// after an error, and changes nothing.
func (i *Inspector) InProgress(ctx context.Context) iter.Seq2[*InProgress, error] {
	return func(yield func(*InProgress, error) bool) {
		fetchers, err := i.fetchers(ctx)
		if err != nil {
			yield(nil, fmt.Errorf("list jobs in progress: %w", err))
			return
		}
		for _, f := range fetchers {
			for _, q := range f.Queues {
				// no more than a fetcher takes at once
				taken, err := parcel.Read(ctx, i.rdb, keys.WIP(q, f.ID))
				if err != nil && !absent(err) {
					yield(nil, fmt.Errorf("list jobs in progress: %w", err))
					return
				}
				for _, receipt := range slices.SortedFunc(maps.Keys(taken), byAge) {
					unit := &InProgress{Fetcher: f.ID, Process: f.Process, Receipt: receipt, Queue: q}
					unit.Job = newRecord(taken[receipt], "")
					if !yield(unit, nil) {
						return
					}
				}
			}
		}
	}
}

func byAge(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// fetchers lists those that are registered, and from the index of leases those
// that a rescuer has shut out and not finished with. Their queues stand in the
// registry, or in the tombstone.
func (i *Inspector) fetchers(ctx context.Context) ([]*Fetcher, error) {
	names := make(map[string]string)
	for cursor := uint64(0); ; {
		page, next, err := i.rdb.HScan(ctx, keys.Procs, cursor, "", scanPage).Result()
		if err != nil {
			return nil, err
		}
		for ; len(page) >= 2; page = page[2:] {
			names[page[0]] = page[1]
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	leases, err := i.rdb.ZRange(ctx, keys.Leases, 0, -1).Result()
	if err != nil {
		return nil, err
	}
	leases = slices.DeleteFunc(leases, func(id string) bool { _, ok := names[id]; return ok })
	cmds := make([]redis.Cmder, len(leases))
	for n, id := range leases {
		cmds[n] = redis.NewStringCmd(ctx, "get", keys.Fenced(id))
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return nil, err
	}
	for n, id := range leases {
		names[id] = cmds[n].(*redis.StringCmd).Val()
	}
	out := make([]*Fetcher, 0, len(names))
	for _, id := range slices.Sorted(maps.Keys(names)) {
		if names[id] == "" {
			continue // it has left, and only the index remembers it
		}
		f := &Fetcher{ID: id}
		f.Process, _, _ = strings.Cut(id, "#")
		if err := json.Unmarshal([]byte(names[id]), &f.Queues); err != nil {
			return nil, fmt.Errorf("queues of fetcher %s: %w", id, err)
		}
		out = append(out, f)
	}
	return out, nil
}
