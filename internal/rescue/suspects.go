package rescue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/script"
)

// ReturnSuspects puts the suspects of all known queues, and of these, back into their
// queues, to the end that is popped next, and tells how many of each. It is for a Redis
// that no daemon takes from any more: nobody else reads the suspects.
func (r *Rescuer) ReturnSuspects(ctx context.Context, queues ...string) (map[string]int, error) {
	names, err := r.queues(ctx)
	if err != nil {
		return nil, fmt.Errorf("return suspects: %w", err)
	}
	for _, name := range append(slices.Clip(names), queues...) {
		queue, _ := keys.SplitName(name)
		names = append(names, queue)
	}
	slices.Sort(names)
	returned := make(map[string]int)
	var failed []error
	for _, name := range slices.Compact(names) {
		n, err := r.returnSuspects(ctx, name)
		if n > 0 {
			returned[name] = n
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("return suspects of queue %s: %w", name, err))
			if !redisconn.IsReply(err) {
				break
			}
		}
	}
	return returned, errors.Join(failed...)
}

func (r *Rescuer) returnSuspects(ctx context.Context, queue string) (moved int, err error) {
	suspects := keys.SlotOf(queue, r.cluster).Suspects(queue)
	if n, err := r.rdb.Exists(ctx, suspects).Result(); err != nil || n == 0 {
		return 0, err
	}
	for left := int64(1); left > 0; {
		n, err := unsuspectScript.Run(ctx, r.rdb, []string{suspects, keys.Queue(queue)}, maxBatch).Int64Slice()
		if err != nil {
			return moved, err
		}
		moved, left = moved+int(n[0]), n[1]
	}
	_, err = r.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		script.Put.Queue(ctx, pipe, []string{keys.Queues}, "SADD", queue)
		pipe.SRem(ctx, keys.Queues, keys.Suspects(queue))
		return nil
	})
	return moved, err
}
