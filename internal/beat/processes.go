package beat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

const (
	cleanupEvery = 60 * time.Second // one cleanup of the list in this time, by anyone
	scanPage     = 100
)

// Clear takes a process off the list with all that it published. No beat may
// follow or be under way: it would put the process back.
func Clear(ctx context.Context, rdb redis.UniversalClient, identity string) error {
	_, err := atomically(ctx, rdb, func(p redis.Pipeliner) error {
		p.SRem(ctx, keys.Processes, identity)
		// One key each, so that it works on a cluster too.
		for _, key := range []string{
			keys.Work(identity), keys.Workers(identity), identity, keys.Tree(identity), keys.Progress(identity),
			keys.Flushed(identity), keys.Measured(identity),
		} {
			p.Unlink(ctx, key)
		}
		ClearPulse(ctx, p, identity)
		return nil
	})
	if err != nil {
		return fmt.Errorf("clear heartbeat: %w", err)
	}
	return nil
}

// Cleanup takes processes without a heartbeat off the list and returns how many
// they were. It does so at most once a minute in the whole fleet, Ruby's
// processes included: without the lock it returns 0.
func Cleanup(ctx context.Context, rdb redis.UniversalClient) (removed int, err error) {
	locked, err := rdb.SetNX(ctx, keys.ProcessCleanup, 1, cleanupEvery).Result()
	if err != nil || !locked {
		return 0, wrapCleanup(err)
	}
	var cursor uint64
	for {
		page, next, err := rdb.SScan(ctx, keys.Processes, cursor, "", scanPage).Result()
		if err != nil {
			return removed, wrapCleanup(err)
		}
		n, err := removeSilent(ctx, rdb, page)
		removed += n
		if err != nil {
			return removed, wrapCleanup(err)
		}
		if cursor = next; cursor == 0 {
			return removed, nil
		}
	}
}

// removeSilent removes those of ids that have no "info". One that beats for the
// first time just now may be among them; its next beat puts it back.
func removeSilent(ctx context.Context, rdb redis.UniversalClient, ids []string) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	infos := make([]*redis.StringCmd, len(ids))
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each command's error is read below
		for i, id := range ids {
			infos[i] = p.HGet(ctx, id, "info")
		}
		return nil
	})
	var silent []any
	for i, id := range ids {
		err := infos[i].Err()
		switch {
		case err == nil:
		case errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "WRONGTYPE"):
			silent = append(silent, id) // a key of another type is no process
		default:
			return 0, err
		}
	}
	if len(silent) == 0 {
		return 0, nil
	}
	n, err := rdb.SRem(ctx, keys.Processes, silent...).Result()
	return int(n), err
}

func wrapCleanup(err error) error {
	if err != nil {
		return fmt.Errorf("clean up processes: %w", err)
	}
	return nil
}
