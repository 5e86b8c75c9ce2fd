package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

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
	env    Env
	rdb    *redis.ClusterClient
	names  []string
	index  map[string]int
	listed string
	ttl    int64
	wants  func(int, *rand.Rand) []Want
	gate   gate
	peeks  *clusterPeeks
	sick   *sickQueues

	mu         sync.Mutex // guards what follows; never held during a call
	cur        *clusterLife
	generation uint64
	calls      uint64 // scripts that were to take; each has its own receipts
	lost       []clusterLost
	stash      []Unit // taken by a call that failed elsewhere
	renewed    time.Time
	paused     []bool // by queue, as of the last look
	forgotten  []bool // by queue: a node has forgotten it; what we hold is to be written back
	rand       *rand.Rand

	registering, registered, doubt, leaving, closed bool // as in reliable
}

// clusterLost is a take of which no answer came.
type clusterLost struct {
	queue  int
	prefix string
	n      int
}

// clusterLife is an incarnation under one generation; immutable.
type clusterLife struct {
	n             uint64
	id            string
	generation    string
	lease, fenced string
	places        [][]string // per queue: the queue and its private place
}

func newCluster(env Env, rdb *redis.ClusterClient) (Fetcher, error) {
	if env.Identity == "" || env.Capsule == "" {
		return nil, fmt.Errorf("fetch: identity %q, capsule %q, expected both", env.Identity, env.Capsule)
	}
	if env.Lease < 0 {
		return nil, fmt.Errorf("fetch: lease %v, expected a millisecond or more", env.Lease)
	}
	if env.Lease == 0 {
		env.Lease = DefaultLease
	}
	names := env.Queues.Names()
	for _, name := range names {
		if strings.ContainsAny(name, "{}") {
			return nil, fmt.Errorf("fetch: queue %q has a brace in its name, which on a Redis Cluster decides about its slot: "+
				"what is in progress from it would be on another node", name)
		}
	}
	listed, err := json.Marshal(names)
	if err != nil {
		return nil, fmt.Errorf("fetch: queue names: %w", err)
	}
	f := &onCluster{
		env: env, rdb: rdb,
		names: names, index: make(map[string]int, len(names)), listed: string(listed),
		ttl:   env.Lease.Milliseconds(),
		wants: planner(env.Queues),
		gate:  newGate(),
		sick:  &sickQueues{log: env.Logger},
		rand:  newRand(env),
	}
	f.peeks = newClusterPeeks(rdb, names, f.sick)
	for i, name := range names {
		f.index[name] = i
	}
	f.begin()
	return f, nil
}

// begin starts a new incarnation, not yet registered.
func (f *onCluster) begin() {
	n := uint64(1)
	if f.cur != nil {
		n = f.cur.n + 1
	}
	f.cur = &clusterLife{n: n, id: fmt.Sprintf("%s#%s.%d", f.env.Identity, f.env.Capsule, n)}
	f.registering, f.registered, f.doubt = false, false, false
	f.generation, f.lost, f.stash = 0, nil, nil
	f.paused, f.forgotten = make([]bool, len(f.names)), make([]bool, len(f.names))
	f.next()
}

// next is a new generation of the current incarnation.
func (f *onCluster) next() *clusterLife {
	f.generation++
	in := &clusterLife{
		n: f.cur.n, id: f.cur.id, generation: fmt.Sprint(f.generation),
		lease: keys.ClusterLease(f.cur.id), fenced: keys.ClusterFenced(f.cur.id),
	}
	for _, name := range f.names {
		in.places = append(in.places, []string{keys.Queue(name), keys.WIP(name, in.id)})
	}
	f.cur = in
	return in
}

// Open registers the fetcher; see Fetcher.
func (f *onCluster) Open(ctx context.Context) error {
	return f.call(ctx, "open", func(*clusterLife) error { return nil })
}

// Renew extends the lease; see Fetcher. Takes do so, too, but not each of them:
// the registry has a slot of its own.
func (f *onCluster) Renew(ctx context.Context) error {
	return f.call(ctx, "renew", func(in *clusterLife) error { return f.renew(ctx, in) })
}

func (f *onCluster) renew(ctx context.Context, in *clusterLife) error {
	now := time.Now()
	err := renewScript.Run(ctx, f.rdb, []string{keys.ClusterProcs, keys.ClusterLeases, in.lease},
		in.id, in.generation, f.ttl).Err()
	if err == nil {
		f.mu.Lock()
		f.renewed = now
		f.mu.Unlock()
	}
	return err
}

// Durable is true: units stay in Redis until they are settled.
func (f *onCluster) Durable() bool { return true }

// Wait blocks until a queue may have work; see Fetcher.
func (f *onCluster) Wait(ctx context.Context, d time.Duration) error { return f.peeks.wait(ctx, d) }

// owns tells whether u was fetched by this incarnation.
func (f *onCluster) owns(in *clusterLife, u Unit) bool {
	_, known := f.index[u.Queue]
	return known && u.Receipt != "" && u.Incarnation == in.n
}

// call runs fn as reliable does: an error leaves a doubt, FENCED is settled at
// once and fn run again if nothing was taken from us.
func (f *onCluster) call(ctx context.Context, what string, fn func(*clusterLife) error) error {
	for again := false; ; again = true {
		in, err := f.enter(ctx)
		if err == nil {
			if err = fn(in); err != nil {
				f.mu.Lock()
				f.doubt = f.doubt || f.cur == in
				f.mu.Unlock()
			}
			f.gate.leave()
			if !again && redis.HasErrorPrefix(err, "FENCED") {
				continue
			}
		}
		var fenced *FencedError
		if err == nil || errors.As(err, &fenced) {
			return err
		}
		return fmt.Errorf("%s: %w", what, err)
	}
}

// enter takes a place at the gate as a registered fetcher without doubts.
func (f *onCluster) enter(ctx context.Context) (*clusterLife, error) {
	for {
		if err := f.gate.enter(ctx); err != nil {
			return nil, err
		}
		f.mu.Lock()
		in, closed := f.cur, f.closed
		ready := f.registered && !f.doubt
		f.mu.Unlock()
		if ready && !closed {
			return in, nil
		}
		f.gate.leave()
		if closed {
			return nil, errClosed
		}
		if err := f.recover(ctx); err != nil {
			return nil, err
		}
	}
}
