package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// registry names the keys in which fetchers are registered.
type registry struct {
	procs, leases string
	lease, fenced func(id string) string
	cluster       bool
}

func registryOf(rdb redis.UniversalClient) registry {
	if _, ok := rdb.(*redis.ClusterClient); ok {
		return registry{
			procs: keys.ClusterProcs, leases: keys.ClusterLeases,
			lease: keys.ClusterLease, fenced: keys.ClusterFenced, cluster: true,
		}
	}
	return registry{procs: keys.Procs, leases: keys.Leases, lease: keys.Lease, fenced: keys.Fenced}
}

// rescueOnCluster is rescue where the registry and each queue are in slots of
// their own: out of the registry, shut place by place, put back, and only then
// out of the index. Whoever comes after us can go on at any point.
func (r *Rescuer) rescueOnCluster(ctx context.Context, c candidate, token string) (RescuedFrom, error) {
	names, err := r.queues(ctx, c)
	if err != nil {
		return RescuedFrom{}, err
	}
	alive, err := fenceScript.Run(ctx, r.rdb,
		[]string{r.reg.procs, r.reg.leases, r.reg.lease(c.id), r.reg.fenced(c.id)},
		c.id, tombstoneTime.Milliseconds(), "1").Slice()
	if err != nil || len(alive) > 0 {
		return RescuedFrom{}, err
	}
	from := RescuedFrom{ID: c.id, Queues: make(map[string]int)}
	var failed []error
	for _, name := range names {
		wip := keys.WIP(name, c.id)
		count, err := clusterShut.Run(ctx, r.rdb, []string{wip}, tombstoneTime.Milliseconds()).Int()
		if err == nil && count != 0 {
			var n int
			if n, err = r.putBackOnCluster(ctx, name, wip, token); n > 0 {
				from.Queues[name] = n
			}
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("queue %s: %w", name, err))
		}
	}
	if len(failed) > 0 {
		return from, errors.Join(failed...)
	}
	if err = forgetScript.Run(ctx, r.rdb, []string{r.reg.leases}, c.id).Err(); err != nil {
		return from, err
	}
	if len(names) == 0 {
		return RescuedFrom{}, nil // it had left, only the index remembered it
	}
	from.Done = true
	return from, nil
}

// putBackOnCluster empties one place into its queue as putBack does.
func (r *Rescuer) putBackOnCluster(ctx context.Context, queue, wip, token string) (int, error) {
	held, err := r.rdb.HKeys(ctx, wip).Result()
	if err != nil {
		return 0, err
	}
	held = slices.DeleteFunc(held, func(field string) bool { return field == "!" })
	slices.SortFunc(held, func(a, b string) int { return compareReceipts(b, a) })
	moved := 0
	for batch := range slices.Chunk(held, maxBatch) {
		args := append(make([]any, 0, 1+len(batch)), tombstoneTime.Milliseconds())
		n, err := clusterPutback.Run(ctx, r.rdb, []string{keys.Queue(queue), wip}, append(args, anyNames(batch)...)...).Int()
		if err != nil {
			return moved, err
		}
		moved += n
		held, err := r.lock(ctx, token, lockTime, "")
		if err == nil && !held {
			err = errLock
		}
		if err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// eachPlace calls fn with pages of the keys of private places, on a cluster with
// those of every master and without those that are shut and empty.
func (r *Rescuer) eachPlace(ctx context.Context, fn func(found []string)) error {
	scan := func(ctx context.Context, rdb redis.UniversalClient, fn func([]string) error) error {
		for cursor := uint64(0); ; {
			found, next, err := rdb.Scan(ctx, cursor, keys.AnyWIP, sweepPage).Result()
			if err == nil {
				err = fn(found)
			}
			if err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	cluster, ok := r.rdb.(*redis.ClusterClient)
	if !ok {
		return scan(ctx, r.rdb, func(found []string) error { fn(found); return nil })
	}
	var mu sync.Mutex // the masters are asked side by side
	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return scan(ctx, node, func(found []string) error {
			open, err := openPlaces(ctx, node, found)
			mu.Lock()
			defer mu.Unlock()
			fn(open)
			return err
		})
	})
}

// openPlaces leaves out those that a rescuer has shut and emptied.
func openPlaces(ctx context.Context, node *redis.Client, found []string) ([]string, error) {
	if len(found) == 0 {
		return nil, nil
	}
	fences, sizes := make([]*redis.StringCmd, len(found)), make([]*redis.IntCmd, len(found))
	_, _ = node.Pipelined(ctx, func(p redis.Pipeliner) error { // each command's error is read below
		for i, key := range found {
			fences[i], sizes[i] = p.HGet(ctx, key, "!"), p.HLen(ctx, key)
		}
		return nil
	})
	var open []string
	for i, key := range found {
		if err := sizes[i].Err(); err != nil && !isReply(err) {
			return nil, err
		}
		if fences[i].Val() != "dead" || sizes[i].Val() > 1 {
			open = append(open, key)
		}
	}
	return open, nil
}
