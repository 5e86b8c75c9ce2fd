package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// DefaultLease is the lease of a fetcher or rescuer that was given none.
const DefaultLease = 30 * time.Second

var errClosed = errors.New("the fetcher is closed")

// reliable keeps what it has taken in a hash per queue, receipt -> bytes, until
// it is settled. Who may touch these hashes is decided in Redis alone:
//
//   - its membership in the registry is the right to have a private place; a
//     rescuer removes it and leaves a tombstone, for ever;
//   - its lease holds a generation, and every script checks that. After a call
//     with an unknown outcome the fetcher asks what happened under a new
//     generation, so that the old call, should it still be on its way, is refused.
type reliable struct {
	env    Env
	rdb    *redis.Client
	names  []string       // of the queues
	index  map[string]int // queue name -> place in names
	listed string         // names as a JSON array, for the registry
	ttl    any            // the lease in ms, as an argument of scripts
	wants  func(int, *rand.Rand) []Want
	gate   gate
	bell   *doorbell
	peeks  *peeks // where there can be no bell
	sick   *sickQueues

	mu         sync.Mutex // guards what follows; never held during a call
	cur        *incarnation
	generation uint64
	calls      uint64 // number of the last Take
	lost       []lostCall
	stash      []Unit // taken by a failed call, found by resume
	busy       int    // units handed out and not settled, about
	suspects   []Unit // likewise, by a failed TakeSuspect
	rand       *rand.Rand

	registering bool // register was sent
	registered  bool // and answered
	doubt       bool // a call has failed: resume before the next one
	amnesia     bool // Redis has lost its data: what we hold is to be written back
	leaving     bool // leave was sent
	closed      bool
}

// lostCall is a Take of which no answer came.
type lostCall struct {
	prefix string
	n      int
}

// incarnation is a fetcher id with its keys under one generation. It is
// immutable; a new generation is a new value.
type incarnation struct {
	n          uint64
	id         string
	generation string
	lease      string
	fenced     string
	wips       []string // per queue, then per queue of suspects
	head       []any    // number of keys and keys of take, behind two free places
}

// NewReliable is the Factory of the default fetcher: a unit stays in Redis,
// in a private place of the fetcher, until it is settled, and what a dead
// process had is put back by a Rescuer. It needs a *redis.Client (standalone
// or Sentinel) or a *redis.ClusterClient; Redis 6.2 or newer.
func NewReliable(env Env) (Fetcher, error) {
	if err := Validate(env.Queues); err != nil {
		return nil, err
	}
	if rdb, ok := env.Redis.(*redis.ClusterClient); ok && rdb != nil {
		return newCluster(env, rdb)
	}
	rdb, ok := env.Redis.(*redis.Client)
	if !ok || rdb == nil {
		return nil, fmt.Errorf("fetch: Redis is a %T, expected a *redis.Client or a *redis.ClusterClient: "+
			"the reliable fetcher opens connections of its own", env.Redis)
	}
	if env.Identity == "" || env.Capsule == "" {
		return nil, fmt.Errorf("fetch: identity %q, capsule %q, expected both", env.Identity, env.Capsule)
	}
	if id := env.Identity + "#" + env.Capsule; strings.Contains(id, "}:") {
		return nil, fmt.Errorf("fetch: fetcher id %q contains }:, which ends the name of a queue in a key", id)
	}
	if env.Lease < 0 || env.Lease > 0 && env.Lease < time.Millisecond {
		return nil, fmt.Errorf("fetch: lease %v, expected a millisecond or more", env.Lease)
	}
	if env.Lease == 0 {
		env.Lease = DefaultLease
	}
	names := env.Queues.Names()
	listed, err := json.Marshal(names)
	if err != nil {
		return nil, fmt.Errorf("fetch: queue names: %w", err)
	}
	f := &reliable{
		env: env, rdb: rdb,
		names: names, index: make(map[string]int, len(names)), listed: string(listed),
		ttl:   env.Lease.Milliseconds(),
		wants: planner(env.Queues),
		gate:  newGate(),
		sick:  &sickQueues{log: env.Logger},
		rand:  newRand(env),
	}
	f.bell = newDoorbell(rdb, env.Identity+"#"+env.Capsule, names)
	f.peeks = newPeeks(rdb, names, f.sick)
	for i, name := range names {
		f.index[name] = i
	}
	f.begin()
	return f, nil
}

// newRand draws differently in each process, since identities differ, and
// equally in each repetition of a simulation.
func newRand(env Env) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(env.Identity + "#" + env.Capsule))
	return rand.New(rand.NewPCG(h.Sum64(), 0))
}

// begin starts a new incarnation, not yet registered: what the old one held is
// somebody else's.
func (f *reliable) begin() {
	n := uint64(1)
	if f.cur != nil {
		n = f.cur.n + 1
	}
	f.cur = &incarnation{n: n, id: fmt.Sprintf("%s#%s.%d", f.env.Identity, f.env.Capsule, n)}
	f.registering, f.registered, f.doubt, f.amnesia = false, false, false, false
	f.generation, f.lost, f.stash, f.suspects, f.busy = 0, nil, nil, nil, 0
	f.next()
}

// next is a new generation of the current incarnation.
func (f *reliable) next() *incarnation {
	f.generation++
	in := &incarnation{n: f.cur.n, id: f.cur.id, generation: fmt.Sprint(f.generation)}
	in.lease, in.fenced = keys.Lease(in.id), keys.Fenced(in.id)
	in.head = append(in.head, nil, nil, 2+2*len(f.names), in.lease, keys.Paused)
	for _, name := range f.names {
		wip := keys.WIP(name, in.id)
		in.wips = append(in.wips, wip)
		in.head = append(in.head, keys.Queue(name), wip)
	}
	for _, name := range f.names {
		in.wips = append(in.wips, keys.WIP(keys.Suspects(name), in.id))
	}
	f.cur = in
	return in
}

// Open registers the fetcher; see Fetcher.
func (f *reliable) Open(ctx context.Context) error {
	return f.call(ctx, "open", func(*incarnation) error { return nil })
}

// Renew extends the lease; see Fetcher.
func (f *reliable) Renew(ctx context.Context) error {
	return f.call(ctx, "renew", func(in *incarnation) error {
		return renewScript.Run(ctx, f.rdb, []string{keys.Procs, keys.Leases, in.lease},
			in.id, in.generation, f.ttl).Err()
	})
}

// Durable is true: units stay in Redis until they are settled.
func (f *reliable) Durable() bool { return true }

// call runs fn side by side with other calls, after registration and after the
// doubts that an earlier call has left. An error of fn leaves a doubt; FENCED
// is settled at once, and fn run again if it turns out that nothing was taken
// from us (the lease had merely run out). Errors of Redis carry what was tried.
func (f *reliable) call(ctx context.Context, what string, fn func(*incarnation) error) error {
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
func (f *reliable) enter(ctx context.Context) (*incarnation, error) {
	for {
		if err := f.gate.enter(ctx); err != nil {
			return nil, err
		}
		f.mu.Lock()
		in, closed := f.cur, f.closed
		ready := f.registered && !f.doubt && !f.amnesia
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
