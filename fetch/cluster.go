package fetch

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// onCluster is reliable on a Redis Cluster. A queue and what is in progress
// from it share a slot, and so are moved in one step as elsewhere; two queues do
// not, and neither do retry, schedule and dead. Who may touch a private place is
// decided in two places:
//
//   - the registry, in a slot of its own, has the lease and says who is dead;
//   - each private place has a fence, its field "!": the generation of its owner,
//     or "dead" since a rescuer has shut it. Every script looks at it, so that no
//     call needs a second slot.
//
// A node that fails over may forget its last writes. It forgets them in a queue
// and its private place alike, since they share a node: a job that was taken is
// then in its queue again and runs twice. A place without a fence has forgotten
// more than that; what we still hold is written back.
type onCluster struct {
	owner
	rdb *redis.ClusterClient

	// guarded by owner.mu
	paused    []bool // by queue, as of the last look
	forgotten []bool // by queue: a node has forgotten it; what we hold is to be written back
}

func newCluster(env Env, rdb *redis.ClusterClient) (Fetcher, error) {
	if env.Share != 0 {
		return nil, fmt.Errorf("fetch: Share is %d, expected 0 on a Redis Cluster, where Sidekiq does not run", env.Share)
	}
	names := env.Queues.Names()
	for _, name := range names {
		if strings.ContainsAny(name, "{}") {
			return nil, fmt.Errorf("fetch: queue %q has a brace in its name, which on a Redis Cluster decides about its slot: "+
				"what is in progress from it would be on another node", name)
		}
	}
	f := &onCluster{rdb: rdb, paused: make([]bool, len(names)), forgotten: make([]bool, len(names))}
	if err := f.init(env, f); err != nil {
		return nil, err
	}
	f.peeks = newPeeks(f.dialPeeks, names, f.sick)
	return f, nil
}

// furnish gives an incarnation the keys of its scripts.
func (f *onCluster) furnish(in *incarnation) {
	for _, name := range f.names {
		in.places = append(in.places, []string{keys.Queue(name), keys.WIP(name, in.id)})
	}
	for _, name := range f.names { // in the same hash, under receipts of their own
		in.places = append(in.places, []string{keys.ClusterSuspects(name), keys.WIP(name, in.id)})
	}
}

// settleIn opens the private place of each queue.
func (f *onCluster) settleIn(ctx context.Context, in *incarnation) error {
	f.mu.Lock()
	clear(f.forgotten)
	f.mu.Unlock()
	_, err := f.mark(ctx, in, false)
	return err
}

// Close gives back what was taken and never handed out, and ends the
// registration; see Fetcher.
func (f *onCluster) Close(ctx context.Context) (left int, err error) {
	if err := f.peeks.close(ctx); err != nil {
		return 0, fmt.Errorf("close: %w", err)
	}
	return f.owner.close(ctx)
}

// depart removes the private places and then the registration.
func (f *onCluster) depart(ctx context.Context, in *incarnation) (int, error) {
	evals := make([]*eval, len(f.names))
	for q := range f.names {
		evals[q] = newEval(clusterLeave, in.places[q][1:], in.generation)
	}
	if err := runAll(ctx, f.rdb, evals); err != nil {
		return 0, err
	}
	left := 0
	for _, e := range evals {
		left += atoi(e.cmd.Val()[0])
	}
	if left > 0 {
		return left, nil
	}
	return leaveScript.Run(ctx, f.rdb, []string{f.reg.procs, f.reg.leases, in.lease}, in.id).Int()
}
