package demo

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

const (
	censusEvery   = 200 * time.Millisecond
	censusTimeout = time.Second
	lastTimeout   = 5 * time.Second // of the last count, which no other follows
	// censusAge is when a count is too old to be shown.
	censusAge = 2 * time.Second
)

// counts is what stands in Redis. Enqueued is of the demo's queues; the sets
// belong to the whole database and may hold jobs of others.
type counts struct {
	Enqueued, Scheduled, Retries, Dead int64
	At                                 time.Time // zero: never counted
}

// census counts what stands in Redis, over and over, so that whoever looks never
// waits for Redis. latest is safe for concurrent use.
type census struct {
	rdb  redis.UniversalClient
	last atomic.Pointer[counts]
}

// latest is the last count; zero before the first.
func (c *census) latest() counts {
	if n := c.last.Load(); n != nil {
		return *n
	}
	return counts{}
}

// take counts once.
func (c *census) take(ctx context.Context, limit time.Duration) (counts, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var lens []*redis.IntCmd
	var scheduled, retries, dead *redis.IntCmd
	if _, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, name := range queues {
			lens = append(lens, p.LLen(ctx, keys.Queue(name)))
		}
		scheduled, retries, dead = p.ZCard(ctx, keys.Schedule), p.ZCard(ctx, keys.Retry), p.ZCard(ctx, keys.Dead)
		return nil
	}); err != nil {
		return counts{}, err
	}
	n := counts{Scheduled: scheduled.Val(), Retries: retries.Val(), Dead: dead.Val(), At: time.Now()}
	for _, l := range lens {
		n.Enqueued += l.Val()
	}
	c.last.Store(&n)
	return n, nil
}

// work counts until ctx ends. That Redis is away is told by the daemon.
func (c *census) work(ctx context.Context) {
	t := time.NewTicker(censusEvery)
	defer t.Stop()
	for {
		_, _ = c.take(ctx, censusTimeout)
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}
