package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// basic takes jobs out of Redis for good, as Sidekiq does: what it has taken
// lives in this process alone until it is settled, and dies with it. A reply
// that is lost on its way loses the jobs in it.
type basic struct {
	env Env

	mu     mutex              // guards what follows; never held during a call
	wants  func(n int) []Want // may panic: whose the queues are is not known
	stash  []Unit             // popped and not handed out, the oldest first
	pop    chan error         // tells a Wait of the end of the BRPOP under way, and is closed; or nil
	idle   map[string]bool    // queues that gave nothing to the last Take: paused, or else of a wrong type
	faulty faultyQueues
	closed bool
}

// NewBasic is the Factory of Sidekiq's own way to fetch: BRPOP, nothing in progress in
// Redis, nothing to renew or to rescue. It loses what it holds when the process
// is killed: prefer NewReliable.
func NewBasic(env Env) (Fetcher, error) {
	if err := env.Check(); err != nil {
		return nil, err
	}
	if env.Waiters != 0 {
		return nil, fmt.Errorf("fetch: Waiters is %d, expected 0: the basic fetcher waits in one BRPOP, like one of Sidekiq's threads", env.Waiters)
	}
	if redisconn.OnCluster(env.Redis) {
		return nil, errors.New("fetch: the basic fetcher does not run on a Redis Cluster, since one BRPOP cannot wait for " +
			"queues on several nodes: use the reliable one, which does")
	}
	wants, r := planner(env.Queues), env.rand()
	return &basic{env: env, wants: func(n int) []Want { return wants(n, r) }, faulty: faultyQueues{log: env.Logger}}, nil
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
func (f *basic) Take(ctx context.Context, n int, _ []Unit) (units []Unit, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, fmt.Errorf("take: %w", errClosed)
	}
	if n <= 0 {
		return nil, nil
	}
	ask := max(0, min(n-len(f.stash), maxTake))
	wants := f.wants(max(ask, 1))
	names, args := []string{keys.Paused}, []any{ask, f.env.Bytes}
	for _, want := range wants {
		names, args = append(names, keys.Queue(want.Queue)), append(args, want.Queue, want.N)
	}
	var reply []string
	f.mu.unlocked(func() { reply, err = popScript.Run(ctx, f.env.Redis, names, args...).StringSlice() })
	if err == nil {
		f.idle = make(map[string]bool)
		for part := range parts(reply) {
			if err = part.err(); err != nil {
				break
			}
			queue := wants[part.q].Queue
			for _, job := range part.jobs {
				f.stash = append(f.stash, Unit{Queue: queue, Payload: bytesOf(job), Incarnation: 1})
			}
			if part.kind != "c" {
				f.idle[queue] = part.kind == "p"
			}
			if part.kind == "e" {
				f.faulty.report(queue, part.text)
			}
		}
	}
	if err == nil {
		err = f.putBackLocked(ctx, func(u Unit) bool { return f.idle[u.Queue] })
	}
	if err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	n = min(n, len(f.stash))
	units, f.stash = slices.Clone(f.stash[:n]), f.stash[n:]
	return units, nil
}

// Wait blocks in one BRPOP of two seconds at most, over all queues in the order that the
// next Take would draw, without those that gave nothing to the last one: a key of the wrong
// type fails the whole command. It returns early when ctx or d ends; the pop goes on, and
// what it gets when nobody waits any more is put back.
func (f *basic) Wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	d = min(d, lookTime)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("wait: %w", errClosed)
	}
	if len(f.stash) > 0 {
		return nil
	}
	if f.pop == nil {
		var order []string
		for _, want := range f.wants(1) {
			if _, idle := f.idle[want.Queue]; !idle {
				order = append(order, keys.Queue(want.Queue))
			}
		}
		f.pop = make(chan error)
		go f.brpop(order, d)
	}
	return f.endedLocked(ctx, d)
}

// endedLocked waits for the end of the BRPOP under way.
func (f *basic) endedLocked(ctx context.Context, d time.Duration) (err error) {
	pop, timer := f.pop, time.NewTimer(d)
	defer timer.Stop()
	f.mu.unlocked(func() {
		select {
		case err = <-pop:
		case <-timer.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
	})
	return err
}

// brpop is never broken off, since Redis may have popped already.
func (f *basic) brpop(order []string, d time.Duration) {
	var got []string
	var err error
	if len(order) == 0 {
		time.Sleep(d)
	} else { // rounded up to a second, as Redis clients count here
		d = max(d+time.Second-1, time.Second).Truncate(time.Second)
		got, err = f.env.Redis.BRPop(context.Background(), d, order...).Result()
	}
	if redisconn.HasPrefix(err, "WRONGTYPE") { // the next Take finds the queue
		time.Sleep(min(d, soonTime))
		err = redis.Nil
	}
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(got) == 2 {
		f.stash = append(f.stash, Unit{Queue: strings.TrimPrefix(got[0], keys.Queue("")), Payload: bytesOf(got[1]), Incarnation: 1})
	}
	select {
	case f.pop <- err:
	default: // nobody waits
		_ = f.putBackLocked(context.Background(), every) // else Close tries again, and reports
	}
	close(f.pop)
	f.pop = nil
}

// Settle writes up to 500 moves in one atomic step. The units of moves that go
// to one queue are expected oldest first. A move that is repeated after its
// reply was lost is done twice if it goes to a queue: nothing in Redis tells
// that it had happened.
func (f *basic) Settle(ctx context.Context, moves []Move) ([]Result, error) {
	for batch := range slices.Chunk(inOrder(moves), maxMoves) {
		names, args := []string{keys.Retry, keys.Schedule, keys.Dead, keys.Queues}, []any(nil)
		for _, m := range batch {
			target := any(score(m.Score))
			if m.To == ToQueue || m.To == ToBack {
				names = append(names, keys.Queue(m.queue()))
				target = len(names)
			}
			args = append(args, int(m.To), target, m.queue(), m.bytes(), m.Trim.Text())
		}
		if err := storeScript.Run(ctx, f.env.Redis, names, args...).Err(); err != nil {
			return nil, fmt.Errorf("settle: %w", err)
		}
	}
	return make([]Result, len(moves)), nil
}

// Close waits for a pop under way and puts back what it got. left is what could
// not be put back; it is lost with the process unless Close is called again.
func (f *basic) Close(ctx context.Context) (left int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.pop != nil {
		_ = f.endedLocked(ctx, time.Minute) // it takes seconds
	}
	if f.pop != nil {
		return 0, fmt.Errorf("close: %w", cmp.Or(ctx.Err(), errNoAnswer))
	}
	if err := f.putBackLocked(ctx, every); err != nil {
		return len(f.stash), fmt.Errorf("close: put back: %w", err)
	}
	return 0, nil
}

// putBackLocked returns what is in the stash of some queues, the first one popped to be the next
// again.
func (f *basic) putBackLocked(ctx context.Context, of func(Unit) bool) (err error) {
	units := slices.DeleteFunc(slices.Clone(f.stash), func(u Unit) bool { return !of(u) })
	f.stash = slices.DeleteFunc(f.stash, of)
	err = errNoAnswer // stands if the call panics
	defer func() {
		if err != nil {
			f.stash = append(units, f.stash...)
		}
	}()
	f.mu.unlocked(func() { _, err = f.Settle(ctx, backToQueue(units)) })
	return err
}

var errNoAnswer = errors.New("no answer")

func every(Unit) bool { return true }
