package job

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/script"
)

//go:embed locks.lua
var locksSource string

var locksScript = script.New("job.locks", locksSource)

// FreeLock frees a lock if this job holds it, and tells whether it did.
func FreeLock(ctx context.Context, rdb redis.UniversalClient, key, jid string) (bool, error) {
	n, err := locksScript.Run(ctx, rdb, []string{key}, jid, 0).Int()
	if err != nil {
		return false, fmt.Errorf("free lock %s: %w", key, err)
	}
	return n > 0, nil
}

// RenewLocks renews each lock that its job holds: it lives for its For from now on at least. A lock that Redis has
// forgotten is not taken again, since its job may have ended meanwhile.
func RenewLocks(ctx context.Context, rdb redis.UniversalClient, locks []*Lock) error {
	const page = 500
	size := page
	if redisconn.OnCluster(rdb) { // they are in slots of their own
		size = 1
	}
	for len(locks) > 0 {
		n := min(size, len(locks))
		var names []string
		var args []any
		for _, l := range locks[:n] {
			names, args = append(names, l.Key), append(args, l.JID, max(1, l.For.Milliseconds()))
		}
		if err := locksScript.Run(ctx, rdb, names, args...).Err(); err != nil {
			return fmt.Errorf("renew locks of running jobs: %w", err)
		}
		locks = locks[n:]
	}
	return nil
}
