package redisconn

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Age tells which run of its server has key, and for how long it has run, to the second. A server
// that answers INFO without these, as an embedded one does, has the empty run.
func Age(ctx context.Context, rdb redis.UniversalClient, key string) (run string, up time.Duration, err error) {
	var node redis.Cmdable = rdb
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		if node, err = cluster.MasterForKey(ctx, key); err != nil {
			return "", 0, fmt.Errorf("find the master of %s: %w", key, err)
		}
	}
	info, err := node.Info(ctx).Result()
	if err != nil {
		return "", 0, fmt.Errorf("ask redis for how long it has run: %w", err)
	}
	seconds, err := strconv.Atoi(infoField(info, "uptime_in_seconds"))
	if err != nil {
		return "", 0, nil
	}
	return infoField(info, "run_id"), time.Duration(seconds) * time.Second, nil
}
