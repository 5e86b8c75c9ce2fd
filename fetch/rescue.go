package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// rescue fences an owner and puts back what it had. Whoever comes after us can go on at
// any point. The zero RescuedFrom means that it lives, or has left.
func (r *Rescuer) rescue(ctx context.Context, id, token string) (from RescuedFrom, err error) {
	o, err := r.find(ctx, id)
	if err != nil {
		return from, err
	}
	common := keys.CommonOf(id, r.cluster)
	// The generations are read before the lease: an owner that renews a lapsed lease
	// raises them, and is not fenced after that.
	marks := make(map[keys.Slot]string)
	for _, s := range o.slots {
		mark, err := r.rdb.HGet(ctx, s.Place(id), "!").Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return from, err
		}
		marks[s] = mark
	}
	left, err := r.rdb.PTTL(ctx, common.Lease).Result()
	if err != nil {
		return from, err
	}
	if left != -2 { // it lives; the index is corrected
		return from, r.postpone(ctx, id, max(left, r.cfg.Lease/3))
	}
	var failed []error
	open := 0
	for _, s := range o.slots {
		mark := marks[s]
		generation, _, _ := strings.Cut(mark, " ")
		flat, err := fenceScript.Run(ctx, r.rdb, []string{s.Place(id)}, generation, time.Now().UnixMilli()).StringSlice()
		if hasPrefix(err, "ALIVE") {
			open++
			continue
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if from.ID == "" {
			from.ID, from.Queues = id, make(map[string]int)
			r.cfg.Logger.Debug().Str("fetcher", id).Msg("its lease is over; putting back what it had in progress")
		}
		if err := r.empty(ctx, o, s, flat, token, &from); err != nil {
			failed = append(failed, err)
			continue
		}
		n, err := finishScript.Run(ctx, r.rdb, []string{s.Place(id), s.Registry()}, id, tombstoneTime.Milliseconds()).Int()
		if err == nil && n > 0 {
			open++
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return from, errors.Join(failed...)
	}
	if open == 0 {
		_, err = r.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.ZRem(ctx, common.Expiries, id)
			pipe.HDel(ctx, common.Owners, id)
			return nil
		})
	}
	from.Done = err == nil && open == 0 && from.ID != ""
	return from, err
}

// empty puts back what every list of a place holds.
func (r *Rescuer) empty(ctx context.Context, o *orphan, s keys.Slot, flat []string, token string, from *RescuedFrom) error {
	type named struct{ field, value string }
	var lists []named
	for pair := range slices.Chunk(flat, 2) {
		if pair[0] != "!" {
			lists = append(lists, named{pair[0], pair[1]})
		}
	}
	slices.SortFunc(lists, func(a, b named) int { return compareFields(b.field, a.field) }) // the newest first
	var failed []error
	for _, l := range lists {
		name, _, _ := cutLast(l.value, ' ')
		queue, suspect := name, false
		if !slices.Contains(o.names[s], name) {
			queue, suspect = splitName(name)
		}
		e := &emptying{r: r, id: o.id, slot: s, field: l.field, list: s.List(o.id, l.field), queue: queue, suspect: suspect, token: token}
		n, err := e.run(ctx, from)
		if n > 0 {
			from.Queues[queue] += n
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("queue %s: %w", queue, err))
		}
	}
	return errors.Join(failed...)
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
func (e *emptying) run(ctx context.Context, from *RescuedFrom) (moved int, err error) {
	closed := ""
	if isWaiting(e.field) {
		closed = strconv.FormatInt(closeTime.Milliseconds(), 10)
	}
	if e.r.cfg.Judge != nil {
		if moved, err = e.judged(ctx, from); err != nil {
			return moved, err
		}
	}
	for {
		n, err := putbackScript.Run(ctx, e.r.rdb, []string{e.slot.Place(e.id), e.list, e.target()}, e.field, maxBatch, closed).Int64Slice()
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
	ours, err := lockScript.Run(ctx, r.rdb, []string{keys.Rescue}, token, lockTime.Milliseconds()).Bool()
	if err == nil && !ours {
		err = errLock
	}
	return err
}
