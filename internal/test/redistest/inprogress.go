package redistest

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// InProgress returns the jobs in all lists of jobs in progress of one server by key, the
// newest first, whether or not a place names the list.
func InProgress(ctx context.Context, rdb redis.Cmdable) (map[string][]string, error) {
	keys, err := rdb.Keys(ctx, "troupe:claim:*").Result()
	if err != nil {
		return nil, err
	}
	lists := make(map[string][]string)
	for _, key := range keys {
		jobs, err := rdb.LRange(ctx, key, 0, -1).Result()
		if redis.HasErrorPrefix(err, "WRONGTYPE") { // closed
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(jobs) > 0 {
			lists[key] = jobs
		}
	}
	return lists, nil
}
