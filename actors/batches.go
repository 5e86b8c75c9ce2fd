package actors

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// cancelledBatches are those that were cancelled, as Redis has told at most cancelledEvery ago to a job of a batch that begins. While
// Redis does not answer they stay as they were.
type cancelledBatches struct {
	rdb redis.UniversalClient

	mu   sync.Mutex
	next time.Time
	ids  map[string]bool
}

const (
	cancelledEvery   = time.Second
	cancelledWait    = 250 * time.Millisecond // for the answer
	cancelledFaulted = 5 * time.Second        // after none
)

// has tells whether a batch was cancelled.
func (c *cancelledBatches) has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); !now.Before(c.next) {
		ctx, cancel := context.WithTimeout(context.Background(), cancelledWait)
		defer cancel()
		ids, err := c.rdb.ZRangeByScore(ctx, keys.BatchesCancelled, &redis.ZRangeBy{Min: strconv.FormatInt(now.Unix(), 10), Max: "+inf"}).Result()
		c.next = time.Now().Add(cancelledEvery)
		if err != nil {
			c.next = c.next.Add(cancelledFaulted - cancelledEvery)
		} else {
			c.ids = make(map[string]bool, len(ids))
			for _, id := range ids {
				c.ids[id] = true
			}
		}
	}
	return c.ids[id]
}
