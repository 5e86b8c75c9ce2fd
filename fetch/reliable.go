package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
)

var errClosed = errors.New("the fetcher is closed")

// fetcher is one capsule's. Its lock guards what it knows and is never held during a
// call; calls to one index follow each other, see index.callLock.
type fetcher struct {
	env     Env
	cluster bool
	rdb     redis.UniversalClient
	set     atomic.Pointer[queueSet]
	faulty  faultyQueues

	changing chan struct{} // held by the SetQueues under way: queues keep their numbers

	mu      mutex
	rand    *rand.Rand
	cur     *incarnation
	renewed stamp // when the last confirmed renewal was sent
	stash   []Unit
	paused  map[int]bool // queues that the last take found paused
	untold  error
	closing bool
	closed  bool
	waiting
}

// incarnation is an owner id and its indexes. After a fence there is a new one.
type incarnation struct {
	f       *fetcher
	n       uint64
	id      string
	common  keys.Common
	indexes []*index
	waiters []*waiter // of all indexes
	over    bool      // fenced; guarded by fetcher.mu
	leased  bool      // a renewal has made the lease; guarded likewise
	started bool      // the waiters run; guarded likewise
}

// NewReliable is the Factory of the default fetcher: a unit stays in Redis, in a list that
// its index names, until it is settled, and what a dead process had is put back by a
// Rescuer. It needs a *redis.Client (one server or Sentinel) or a *redis.ClusterClient, of
// Redis 6.2 or newer.
func NewReliable(env Env) (Fetcher, error) {
	if err := env.Check(); err != nil {
		return nil, err
	}
	f := &fetcher{env: env, rdb: env.Redis, changing: make(chan struct{}, 1)}
	switch env.Redis.(type) {
	case *redis.Client:
	case *redis.ClusterClient:
		f.cluster = true
	default:
		return nil, fmt.Errorf("fetch: Redis is a %T, expected a *redis.Client or a *redis.ClusterClient", env.Redis)
	}
	if env.Identity == "" || env.Capsule == "" {
		return nil, fmt.Errorf("fetch: identity %q, capsule %q, expected both", env.Identity, env.Capsule)
	}
	if env.Waiters < 0 || env.Waiters > limits.MaxWaiters {
		return nil, fmt.Errorf("fetch: Waiters is %d, expected 0 to %d", env.Waiters, limits.MaxWaiters)
	}
	if env.Lease < 0 || env.Lease > 0 && env.Lease < time.Millisecond {
		return nil, fmt.Errorf("fetch: lease %v, expected a millisecond or more", env.Lease)
	}
	f.env.Lease = cmp.Or(env.Lease, limits.Lease)
	set, err := f.newSet(env.Queues, nil)
	if err != nil {
		return nil, err
	}
	f.set.Store(set)
	f.faulty.log = env.Logger
	f.rand = env.rand()
	f.changed, f.giving, f.paused = make(chan struct{}), make(map[string]int), make(map[int]bool)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beginLocked()
	return f, nil
}

// beginLocked starts a new incarnation.
func (f *fetcher) beginLocked() {
	n := uint64(1)
	if f.cur != nil {
		f.cur.over, n = true, f.cur.n+1
	}
	in := &incarnation{f: f, n: n, id: fmt.Sprintf("%s#%s.%d", f.env.Identity, f.env.Capsule, n)}
	in.common = keys.CommonOf(in.id, f.cluster)
	if f.cluster {
		for _, name := range f.set.Load().names {
			in.indexes = append(in.indexes, newIndex(in, keys.SlotOf(name, true)))
		}
	} else {
		in.indexes = []*index{newIndex(in, keys.Slot{})}
	}
	in.addWaiters()
	f.cur, f.stash, f.renewed = in, nil, stamp{}
	f.wakeLocked()
}

// indexOf is the index of a queue.
func (in *incarnation) indexOf(queue string) *index {
	if len(in.indexes) == 1 {
		return in.indexes[0]
	}
	return in.indexes[in.f.set.Load().index[queue]]
}

// fenced begins anew after a rescuer has taken over; the next call tells of it, once.
func (f *fetcher) fenced(in *incarnation) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cur == in {
		if f.env.Fenced != nil {
			f.env.Fenced(in.n)
		}
		f.beginLocked()
		f.untold = &FencedError{ID: in.id, Incarnation: in.n}
	}
	return errOver
}

// tell returns the fence that nobody was told of.
func (f *fetcher) tell() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.untold
	f.untold = nil
	return err
}

// current is the incarnation that calls are made for.
func (f *fetcher) current() (*incarnation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errClosed
	}
	return f.cur, nil
}

// Durable is true: jobs stay in Redis until they are settled.
func (f *fetcher) Durable() bool { return true }

// Open makes the lease and the indexes; see Fetcher.
func (f *fetcher) Open(ctx context.Context) error { return f.Renew(ctx) }

// Renew extends the lease, and settles what is in doubt.
func (f *fetcher) Renew(ctx context.Context) error {
	if err := f.tell(); err != nil {
		return err
	}
	in, err := f.current()
	if err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	if err := f.renew(ctx, in); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	for _, p := range in.indexes {
		err := p.withCallLock(ctx, func() error { return p.probe(ctx) })
		if errors.Is(err, errOver) {
			return f.tell()
		}
		if err != nil {
			return fmt.Errorf("renew: %w", err)
		}
	}
	return nil
}

// renew makes the call. A lease that had run out puts every index in doubt: a rescuer
// may have been there.
func (f *fetcher) renew(ctx context.Context, in *incarnation) error {
	sent := now()
	keys := []string{in.common.Lease, in.common.Expiries, in.common.Owners}
	reply, err := renewScript.Run(ctx, f.rdb, keys, in.id, f.env.Lease.Milliseconds(), f.set.Load().value).Int64Slice()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cur != in {
		return nil
	}
	if reply[0] == 0 && in.leased || f.renewed.age() > f.env.Lease {
		for _, p := range in.indexes {
			p.lapsed = true
		}
	}
	f.renewed, in.leased = sent, true
	if f.env.Renewed != nil {
		f.env.Renewed()
	}
	return nil
}

// freshLocked tells whether the lease is surely ours for d more.
func (f *fetcher) freshLocked(d time.Duration) bool {
	return !f.renewed.wall.IsZero() && f.renewed.age()+d < f.env.Lease
}

// stamp is a moment by both clocks: the wall clock may be set, the other one stands
// still in a machine that is suspended.
type stamp struct{ mono, wall time.Time }

func now() stamp {
	t := time.Now()
	return stamp{mono: t, wall: t.Round(0)}
}

// age is the longer of both; 0 for the zero stamp.
func (s stamp) age() time.Duration {
	if s.wall.IsZero() {
		return 0
	}
	t := time.Now()
	return max(t.Sub(s.mono), t.Round(0).Sub(s.wall))
}
