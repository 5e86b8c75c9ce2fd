package fetch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	wants func(int, *rand.Rand) []Want
	bytes int // of one Take

	mu      sync.Mutex // guards what follows; never held during a call
	rand    *rand.Rand
	stash   []Unit // popped and not handed out, the oldest first
	pop     *pop   // under way, or nil
	waiting int    // calls of Wait
	sick    sickQueues
	paused  []string // queues that the last Take found paused
	closed  bool
}

// pop is one BRPOP. It is never broken off, since Redis may have popped already.
type pop struct {
	done chan struct{} // closed when what it got is in the stash or put back
	err  error
}

// NewBasic is the Factory of Sidekiq's own way to fetch: BRPOP, nothing in progress in
// Redis, nothing to renew or to rescue. It loses what it holds when the process
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
	return &basic{
		rdb: env.Redis, names: env.Queues.Names(), wants: planner(env.Queues), bytes: env.bytes(),
		rand: env.rand(), sick: sickQueues{log: env.Logger},
	}, nil
}

// Open does nothing: there is nothing to register.
func (f *basic) Open(context.Context) error { return nil }

// Renew does nothing: there is no lease.
func (f *basic) Renew(context.Context) error { return nil }

// Durable is false.
func (f *basic) Durable() bool { return false }

// Take hands out what Wait has popped, and pops more by the wants of the queues. What
// Wait popped from a queue that has been paused goes back. Acks are nothing to do: the
// jobs left Redis when they were fetched.
func (f *basic) Take(ctx context.Context, n int, _ []Unit) ([]Unit, error) {
	units, ask, wants, err := f.plan(n)
	if err != nil || n <= 0 {
		return nil, err
	}
	done := false
	defer func() {
		if !done { // an error, or a panic in what others wrote
			f.mu.Lock()
			f.stash = append(units, f.stash...)
			f.mu.Unlock()
		}
	}()
	args := []any{nil, nil, 1 + len(wants), keys.Paused}
	for i := range wants {
		args = append(args, keys.Queue(wants[i].Queue))
	}
	args = append(args, max(ask, 0), f.bytes)
	for i := range wants {
		args = append(args, &wants[i].Queue, wants[i].N)
	}
	text, err := popScript.Flat(ctx, f.rdb, args)
	if err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	reply, err := readReply(text)
	if err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	for _, c := range reply.claims {
		for _, job := range c.jobs {
			units = append(units, Unit{Queue: wants[c.queue].Queue, Payload: bytesOf(job), Incarnation: 1})
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
	var back []Move // popped by a Wait before the pause was seen
	for _, u := range units {
		if slices.Contains(paused, u.Queue) {
			back = append(back, Move{Unit: u, To: ToQueue})
		}
	}
	if _, err := f.Settle(ctx, back); err != nil {
		return nil, fmt.Errorf("take: put back what is paused: %w", err)
	}
	done = true
	return slices.DeleteFunc(units, func(u Unit) bool { return slices.Contains(paused, u.Queue) }), nil
}

// plan takes what is in hand, and asks the queues, whose code may be anybody's, for the rest.
func (f *basic) plan(n int) (units []Unit, ask int, wants []Want, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, 0, nil, fmt.Errorf("take: %w", errClosed)
	}
	have := min(max(n, 0), len(f.stash))
	ask = min(n-have, maxTake)
	wants = f.wants(max(ask, 1), f.rand)
	units = slices.Clone(f.stash[:have])
	f.stash = f.stash[have:]
	return units, ask, wants, nil
}

// Wait blocks in one BRPOP of two seconds at most, over all queues in the order that the
// next Take would draw. It returns early when ctx or d ends; the pop goes on, and what
// it gets when nobody waits any more is put back.
func (f *basic) Wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	p, err := f.begin(d)
	if p == nil {
		return err
	}
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.waiting--
	}()
	timer := time.NewTimer(min(d, lookTime))
	defer timer.Stop()
	select {
	case <-p.done:
		return p.err
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin has a pop run, unless something is in hand, and notes that somebody waits for it.
func (f *basic) begin(d time.Duration) (*pop, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, fmt.Errorf("wait: %w", errClosed)
	case len(f.stash) > 0:
		return nil, nil
	case f.pop == nil:
		order := f.order() // may panic
		f.pop = &pop{done: make(chan struct{})}
		go f.run(f.pop, order, min(d, lookTime))
	}
	f.waiting++
	return f.pop, nil
}

// order draws the order of the queues for a BRPOP, without those that the last Take found
// paused and those whose key had the wrong type a moment ago: one of them fails the whole
// command. f.mu is held.
func (f *basic) order() (order []string) {
	for _, want := range f.wants(1, f.rand) {
		if !slices.Contains(f.paused, want.Queue) && !f.sick.lately(want.Queue) {
			order = append(order, keys.Queue(want.Queue))
		}
	}
	return order
}

// run carries out p.
func (f *basic) run(p *pop, order []string, d time.Duration) {
	got, err := f.brpop(order, d)
	f.mu.Lock()
	if len(got) == 2 {
		queue := strings.TrimPrefix(got[0], keys.Queue(""))
		f.stash = append(f.stash, Unit{Queue: queue, Payload: bytesOf(got[1]), Incarnation: 1})
	}
	p.err = err
	unwanted := f.waiting == 0
	f.mu.Unlock()
	if unwanted {
		_ = f.putBack(context.Background()) // else Close tries again, and reports
	}
	f.mu.Lock()
	f.pop = nil
	f.mu.Unlock()
	close(p.done)
}

// brpop blocks for d, rounded up to a second as Redis clients count here.
func (f *basic) brpop(order []string, d time.Duration) ([]string, error) {
	if len(order) == 0 { // every queue is paused, or its key has the wrong type
		time.Sleep(d)
		return nil, nil
	}
	ctx := context.Background()
	got, err := f.rdb.BRPop(ctx, max(d+time.Second-1, time.Second).Truncate(time.Second), order...).Result()
	if hasPrefix(err, "WRONGTYPE") {
		err = nil
		for _, key := range order {
			if kind := f.rdb.Type(ctx, key).Val(); kind != "list" && kind != "none" {
				f.sick.report(strings.TrimPrefix(key, keys.Queue("")), key+" is a "+kind+", expected a list")
			}
		}
	}
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return got, err
}

// Settle writes up to 500 moves in one atomic step. The units of moves that go
// to one queue are expected oldest first. A move that is repeated after its
// reply was lost is done twice if it goes to a queue: nothing in Redis tells
// that it had happened.
func (f *basic) Settle(ctx context.Context, moves []Move) ([]Result, error) {
	ordered := make([]*Move, len(moves))
	for i := range moves {
		ordered[i] = &moves[i]
	}
	for batch := range slices.Chunk(inOrder(ordered), maxMoves) {
		names := []string{keys.Retry, keys.Schedule, keys.Dead, keys.Queues}
		args := make([]any, 0, 6*len(batch))
		for _, m := range batch {
			payload, target := m.Payload, any(score(m.Score))
			if payload == nil {
				payload = m.Unit.Payload
			}
			if m.To == ToQueue || m.To == ToBack {
				at := slices.Index(names, keys.Queue(m.Unit.Queue))
				if at < 0 {
					at = len(names)
					names = append(names, keys.Queue(m.Unit.Queue))
				}
				target = at + 1
			}
			before, most := m.Trim.args()
			args = append(args, int(m.To), target, m.Unit.Queue, payload, before, most)
		}
		if err := placeScript.Run(ctx, f.rdb, names, args...).Err(); err != nil {
			return nil, fmt.Errorf("settle: %w", err)
		}
	}
	return make([]Result, len(moves)), nil
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
