package rescue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// rescue fences an owner and puts back what it had. Whoever comes after us can go on at
// any point. The zero From means that it lives, or has left.
func (r *Rescuer) rescue(ctx context.Context, id, token string) (from From, err error) {
	indexes, away := r.find(ctx, id)
	if away != nil && len(indexes) == 0 {
		return from, away
	}
	// The generations are read before the lease: an owner that renews a lapsed lease
	// raises them, and is not fenced after that.
	for i := range indexes {
		indexes[i].mark, err = r.rdb.HGet(ctx, indexes[i].Index(id), "!").Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return from, err // its registry was there just now
		}
	}
	left, err := r.rdb.PTTL(ctx, keys.CommonOf(id, r.cluster).Lease).Result()
	if err != nil {
		return from, err
	}
	if left != -2 { // it lives; the expiries are corrected
		return from, r.postpone(ctx, id, max(left, r.cfg.Lease/3))
	}
	failed := []error{away}
	open := 0
	for _, h := range indexes {
		n, err := r.clear(ctx, id, h, token, &from)
		open, failed = open+n, append(failed, err)
	}
	if err := errors.Join(failed...); err != nil || open > 0 {
		return from, err
	}
	_, err = r.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.ZRem(ctx, r.common.Expiries, id)
		pipe.HDel(ctx, r.common.Owners, id)
		return nil
	})
	from.Done = err == nil && from.ID != ""
	return from, err
}

// clear fences an index and puts back what its lists hold, the newest first. It returns how
// many lists are left, 1 for an index whose owner lives.
func (r *Rescuer) clear(ctx context.Context, id string, h ownerIndex, token string, from *From) (open int, err error) {
	generation, _, _ := strings.Cut(h.mark, " ")
	flat, err := fenceScript.Run(ctx, r.rdb, []string{h.Index(id)}, generation, time.Now().UnixMilli()).StringSlice()
	if redisconn.HasPrefix(err, "ALIVE") {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	if from.ID == "" {
		from.ID, from.Queues = id, make(map[string]int)
		r.cfg.Logger.Debug().Str("fetcher", id).Msg("its lease is over; putting back what it had in progress")
	}
	lists := keys.Fields(flat)
	delete(lists, "!")
	var failed []error
	for _, field := range slices.Backward(slices.SortedFunc(maps.Keys(lists), keys.CompareFields)) {
		queue, suspect := keys.QueueOfList(lists[field], h.queues)
		e := &emptying{r: r, id: id, slot: h.Slot, field: field, list: h.List(id, field), queue: queue, suspect: suspect, token: token}
		n, err := e.run(ctx, from)
		if n > 0 {
			from.Queues[queue] += n
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("queue %s: %w", queue, err))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return 0, err
	}
	return finishScript.Run(ctx, r.rdb, []string{h.Index(id), h.Registry()}, id, tombstoneTime.Milliseconds()).Int()
}

// emptying is one list of a fenced owner.
type emptying struct {
	r       *Rescuer
	id      string
	slot    keys.Slot
	field   string
	list    string
	queue   string
	suspect bool
	token   string
}

func (e *emptying) target() string {
	if e.suspect {
		return e.slot.Suspects(e.queue)
	}
	return keys.Queue(e.queue)
}

// run empties the list, and closes it if more may come.
func (e *emptying) run(ctx context.Context, from *From) (moved int, err error) {
	closed := ""
	if keys.IsWaiting(e.field) {
		closed = strconv.FormatInt(keys.CloseTime.Milliseconds(), 10)
	}
	if e.r.cfg.Policy != nil {
		if moved, err = e.byPolicy(ctx, from); err != nil {
			return moved, err
		}
	}
	for {
		n, err := putbackScript.Run(ctx, e.r.rdb, []string{e.slot.Index(e.id), e.list, e.target()}, e.field, maxBatch, closed).Int64Slice()
		if err != nil {
			return moved, err
		}
		moved += int(n[0])
		if n[1] == 0 {
			return moved, nil
		}
		if err := e.r.extend(ctx, e.token); err != nil {
			return moved, err
		}
	}
}

var errLock = errors.New("another rescuer has taken over")

// extend takes or keeps the lock.
func (r *Rescuer) extend(ctx context.Context, token string) error {
	ours, err := lockScript.Run(ctx, r.rdb, []string{keys.Rescue}, token, LockTime.Milliseconds()).Bool()
	if err == nil && !ours {
		err = errLock
	}
	return err
}
