package fetch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// basic takes jobs out of Redis for good, as Sidekiq does: what it has taken
// lives in this process alone until it is settled, and dies with it. A reply
// that is lost on its way loses the jobs in it.
type basic struct {
	rdb   redis.UniversalClient
	names []string
	index map[string]int
	wants func(int, *rand.Rand) []Want
	sick  *sickQueues
	bytes int // of one Take

	mu     sync.Mutex // guards what follows; never held during a call
	rand   *rand.Rand
	stash  []Unit // popped by a Wait, not yet handed out; the first is the oldest
	pop    *pop   // under way, or nil
	resume map[string]time.Time
	paused []string // queues that the last look found paused
	closed bool
}

// NewBasic is the Factory of Sidekiq's own way to fetch: BRPOP, no private
// place, nothing to renew or to rescue. It loses what it holds when the process
// is killed: prefer NewReliable.
func NewBasic(env Env) (Fetcher, error) {
	if err := Validate(env.Queues); err != nil {
		return nil, err
	}
	if env.Redis == nil {
		return nil, errors.New("fetch: Redis is nil, expected a client")
	}
	if err := env.checkBytes(); err != nil {
		return nil, err
	}
	if env.Waiters != 0 {
		return nil, fmt.Errorf("fetch: Waiters is %d, expected 0: the basic fetcher waits in one BRPOP, like one of Sidekiq's threads", env.Waiters)
	}
	if _, ok := env.Redis.(*redis.ClusterClient); ok {
		return nil, errors.New("fetch: the basic fetcher does not run on a Redis Cluster, since one BRPOP cannot wait for " +
			"queues on several nodes: use the reliable one, which does")
	}
	f := &basic{
		rdb:    env.Redis,
		names:  env.Queues.Names(),
		index:  make(map[string]int),
		wants:  planner(env.Queues),
		sick:   &sickQueues{log: env.Logger},
		bytes:  env.bytes(),
		rand:   env.rand(),
		resume: make(map[string]time.Time),
	}
	for i, name := range f.names {
		f.index[name] = i
	}
	return f, nil
}

// Open does nothing: there is nothing to register.
func (f *basic) Open(context.Context) error { return nil }

// Renew does nothing: there is no lease.
func (f *basic) Renew(context.Context) error { return nil }

// Durable is false.
func (f *basic) Durable() bool { return false }

// Take hands out what Wait has popped, and pops more by the wants of the
// queues. What Wait popped from a queue that has been paused goes back. Acks are
// nothing to do: the jobs left Redis when they were fetched.
func (f *basic) Take(ctx context.Context, n int, _ []Unit) ([]Unit, error) {
	units, ask, wants, err := f.reserve(n)
	if err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	if n <= 0 {
		return nil, nil
	}
	var popped []Unit
	done := false
	defer func() {
		if !done { // an error, or a panic in what others wrote
			f.mu.Lock()
			f.stash = slices.Concat(units, popped, f.stash)
			f.mu.Unlock()
		}
	}()
	args := []any{nil, nil, 1 + len(wants), keys.Paused}
	for i := range wants {
		args = append(args, keys.Queue(wants[i].Queue))
	}
	args = append(args, ask, f.bytes)
	for i := range wants {
		args = append(args, &wants[i].Queue, wants[i].N)
	}
	text, err := popScript.run(ctx, f.rdb, args)
	if err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	reply, err := readReply(text)
	if err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	for _, c := range reply.claims {
		for _, job := range c.jobs {
			popped = append(popped, Unit{Queue: wants[c.queue].Queue, Payload: bytesOf(job), Incarnation: 1})
		}
	}
	var paused []string
	for _, q := range reply.paused {
		paused = append(paused, wants[q].Queue)
	}
	for _, p := range reply.problems {
		f.sick.report(wants[p.queue].Queue, p.text)
	}
	f.mu.Lock()
	f.paused = paused
	f.mu.Unlock()
	all, err := f.unpaused(ctx, units, popped, paused)
	if err != nil {
		return nil, fmt.Errorf("take: put back what is paused: %w", err)
	}
	done = true
	return all, nil
}

// reserve hands out what was popped by a Wait, and tells how much is to be popped for
// the rest of n.
func (f *basic) reserve(n int) (units []Unit, ask int, wants []Want, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, 0, nil, errClosed
	}
	have := min(max(n, 0), len(f.stash))
	if ask = min(n-have, maxTake); ask > 0 {
		wants = f.wants(ask, f.rand)
	}
	units = slices.Clone(f.stash[:have])
	f.stash = f.stash[have:]
	return units, ask, wants, nil
}

// unpaused joins what a Wait has popped and what was popped now, and puts back
// what came from a queue that was paused in between.
func (f *basic) unpaused(ctx context.Context, stashed, popped []Unit, paused []string) ([]Unit, error) {
	var back []Move
	units := make([]Unit, 0, len(stashed)+len(popped))
	for _, u := range stashed {
		if slices.Contains(paused, u.Queue) {
			back = append(back, Move{Unit: u, To: ToQueue})
		} else {
			units = append(units, u)
		}
	}
	_, err := f.Settle(ctx, back)
	return append(units, popped...), err
}

// Settle writes up to 500 moves in one atomic step. The units of moves that go
// to one queue are expected oldest first. A move that is repeated after its
// reply was lost is done twice if it goes to a queue: nothing in Redis tells
// that it had happened.
func (f *basic) Settle(ctx context.Context, moves []Move) ([]Result, error) {
	ordered := make([]Move, 0, len(moves))
	for _, m := range moves {
		if m.To == ToBack {
			ordered = append(ordered, m)
		}
	}
	for _, m := range slices.Backward(moves) { // what is requeued last is popped first
		if m.To != ToBack {
			ordered = append(ordered, m)
		}
	}
	for batch := range slices.Chunk(ordered, maxMoves) {
		if err := f.place(ctx, batch); err != nil {
			return nil, fmt.Errorf("settle: %w", err)
		}
	}
	return make([]Result, len(moves)), nil
}

func (f *basic) place(ctx context.Context, moves []Move) error {
	names := []string{keys.Retry, keys.Schedule, keys.Dead, keys.Queues}
	args := make([]any, 0, 6*len(moves))
	for i := range moves {
		m := &moves[i]
		payload, target := m.Payload, any(score(m.Score))
		if payload == nil {
			payload = m.Unit.Payload
		}
		if m.To == ToQueue || m.To == ToBack {
			key := keys.Queue(m.Unit.Queue)
			at := slices.Index(names, key)
			if at < 0 {
				at = len(names)
				names = append(names, key)
			}
			target = at + 1
		}
		before, most := m.Trim.args()
		args = append(args, int(m.To), target, m.Unit.Queue, payload, before, most)
	}
	return placeScript.Run(ctx, f.rdb, names, args...).Err()
}

// Close waits for a pop under way and puts back what it got. left is what could
// not be put back; it is lost with the process unless Close is called again.
func (f *basic) Close(ctx context.Context) (left int, err error) {
	f.mu.Lock()
	f.closed = true
	p := f.pop
	f.mu.Unlock()
	if p != nil {
		select {
		case <-p.done:
		case <-ctx.Done():
			return 0, fmt.Errorf("close: %w", ctx.Err())
		}
	}
	if err := f.putBack(ctx); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.stash), fmt.Errorf("close: put back: %w", err)
	}
	return 0, nil
}

// putBack returns the stash to its queues, the first one popped to be the next again.
func (f *basic) putBack(ctx context.Context) error {
	f.mu.Lock()
	units := f.stash
	f.stash = nil
	f.mu.Unlock()
	moves := make([]Move, len(units))
	for i, u := range units {
		moves[i] = Move{Unit: u, To: ToQueue}
	}
	_, err := f.Settle(ctx, moves)
	if err != nil {
		f.mu.Lock()
		f.stash = append(units, f.stash...)
		f.mu.Unlock()
	}
	return err
}
