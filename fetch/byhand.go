package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// ErrBusy tells that another rescuer is at work, or was a moment ago.
var ErrBusy = errors.New("another rescuer is at work")

// RescueOnly makes a round for these fetchers, whatever the index says of them. Those whose
// lease runs are left alone. It is for operators; it returns ErrBusy where Rescue waits for
// its next turn.
func (r *Rescuer) RescueOnly(ctx context.Context, ids ...string) (Rescued, error) {
	var done Rescued
	token := r.own + strconv.FormatUint(r.random("lock").Uint64(), 16)
	err := r.extend(ctx, token)
	if errors.Is(err, errLock) {
		return done, fmt.Errorf("rescue: %w", ErrBusy)
	}
	if err == nil {
		err = r.round(ctx, ids, token, &done)
		r.unlock(ctx, token)
	}
	if err != nil {
		return done, fmt.Errorf("rescue: %w", err)
	}
	return done, nil
}

// ReturnSuspects puts the suspects of all known queues, and of these, back into their
// queues, to the end that is popped next, and tells how many of each. It is for a Redis that
// no daemon takes from any more: nobody else reads the suspects.
func (r *Rescuer) ReturnSuspects(ctx context.Context, queues ...string) (map[string]int, error) {
	names, err := r.queues(ctx)
	if err != nil {
		return nil, fmt.Errorf("return suspects: %w", err)
	}
	for _, name := range append(slices.Clip(names), queues...) {
		queue, _ := splitName(name)
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
			if !isReply(err) {
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
		put(ctx, pipe, "SADD", keys.Queues, queue)
		pipe.SRem(ctx, keys.Queues, keys.Suspects(queue))
		return nil
	})
	return moved, err
}
