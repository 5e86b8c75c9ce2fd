package fetch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

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
		j := &judged{r: r, id: c.id, queue: name, wip: wip, counts: r.counts(name)}
		open, err := j.shut(ctx)
		if err == nil && open {
			var n int
			if n, err = r.putBack(ctx, j, token, &from); n > 0 {
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

// fenceField is the field of a private place on a cluster that says whose it is:
// a generation of its owner, or dead, since when and why.
const (
	fenceField = "!"
	fenceDead  = "dead"
)

// shut shuts the owner out and tells whether there are units. What a rescuer
// before us has noted about the end holds: made again, a fate has the same bytes.
func (j *judged) shut(ctx context.Context) (units bool, err error) {
	reply, err := clusterShut.Run(ctx, j.r.rdb, []string{j.wip}, tombstoneTime.Milliseconds(), j.r.causeOf(j.id)).Slice()
	if err != nil {
		return false, err
	}
	n, _ := reply[0].(int64)
	fence, _ := reply[1].(string)
	if words := strings.SplitN(fence, " ", 3); len(words) == 3 {
		j.at, j.cause = time.UnixMilli(int64(atoi(words[1]))), words[2]
	}
	return n != 0, nil
}

// eachPlace calls fn with pages of the keys of private places, on a cluster with
// those of every master and without those that are shut and empty.
func (r *Rescuer) eachPlace(ctx context.Context, fn func(found []string)) error {
	scan := func(ctx context.Context, rdb redis.UniversalClient, fn func([]string) error) error {
		for cursor := uint64(0); ; {
			found, next, err := rdb.Scan(ctx, cursor, keys.AnyPlace, sweepPage).Result()
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
			fences[i], sizes[i] = p.HGet(ctx, key, fenceField), p.HLen(ctx, key)
		}
		return nil
	})
	var open []string
	for i, key := range found {
		if err := sizes[i].Err(); err != nil && !isReply(err) {
			return nil, err
		}
		if !strings.HasPrefix(fences[i].Val(), fenceDead) || sizes[i].Val() > 1 {
			open = append(open, key)
		}
	}
	return open, nil
}
