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

	mu     sync.Mutex // not held while Redis is asked
	next   time.Time
	asking chan struct{} // closed at the answer; nil while nobody asks
	ids    map[string]bool
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
	switch {
	case c.asking != nil:
		answer := c.asking
		c.mu.Unlock()
		<-answer
		c.mu.Lock()
	case !time.Now().Before(c.next):
		c.asking = make(chan struct{})
		c.mu.Unlock()
		ids, err := c.ask()
		c.mu.Lock()
		c.next = time.Now().Add(cancelledEvery)
		if err != nil {
			c.next = c.next.Add(cancelledFaulted - cancelledEvery)
		} else {
			c.ids = ids
		}
		close(c.asking)
		c.asking = nil
	}
	return c.ids[id]
}

func (c *cancelledBatches) ask() (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cancelledWait)
	defer cancel()
	now := strconv.FormatInt(time.Now().Unix(), 10)
	all, err := c.rdb.ZRangeByScore(ctx, keys.BatchesCancelled, &redis.ZRangeBy{Min: now, Max: "+inf"}).Result()
	ids := make(map[string]bool, len(all))
	for _, id := range all {
		ids[id] = true
	}
	return ids, err
}
