package sched

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/cut"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/moving"
)

// applyOnCluster is apply where the set, the queues and dead are in slots of
// their own: claim, write, finish; see package moving.
func (b *batch) applyOnCluster(ctx context.Context) (out Promoted, err error) {
	rdb, set := b.s.cfg.Redis, string(b.set)
	all := make([]any, 0, b.tried)
	for _, g := range slices.Concat([]group{b.dying, {members: b.dropped}}, b.lists) {
		for _, m := range g.members {
			all = append(all, m)
		}
	}
	claimed, err := moving.Claim(ctx, rdb, set, all)
	b.cur.release(b.dropped)
	if err != nil {
		return out, err
	}
	at := 0 // of the group in all
	part := func(n int) (here []int) {
		for i := range n {
			if _, ok := claimed[at+i]; ok {
				here = append(here, i)
			}
		}
		at += n
		return here
	}
	pipe := rdb.Pipeline()
	dying := part(len(b.dying.members))
	buried := b.bury1(ctx, pipe, dying)
	dropped := part(len(b.dropped))
	lists := make([][]int, len(b.lists))
	pushes := make([]*redis.IntCmd, len(b.lists))
	for l, g := range b.lists {
		lists[l] = part(len(g.members))
		if len(lists[l]) > 0 {
			payloads := make([]any, len(lists[l]))
			for k, i := range lists[l] {
				payloads[k] = g.payloads[i]
			}
			pipe.SAdd(ctx, keys.Queues, g.queue) // a list for people: the job moves even if that is broken
			pushes[l] = pipe.LPush(ctx, keys.Queue(g.queue), payloads...)
		}
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx) // the errors are in the commands
	}

	end := ending{claimed: claimed}
	var errs []error
	out.Buried = end.group(0, dying, buried)
	errs = append(errs, b.settleOnCluster(keys.Dead, b.dying, buried))
	at = len(b.dying.members)
	out.Dropped = end.group(at, dropped, nil)
	at += len(b.dropped)
	for l, g := range b.lists {
		out.Moved += end.group(at, lists[l], pushes[l])
		errs = append(errs, b.settleOnCluster(keys.Queue(g.queue), g, pushes[l]))
		at += len(g.members)
	}
	// What was written must not stay claimed because a stop begins just now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	return out, errors.Join(append(errs, moving.Finish(ctx, rdb, set, end.arrived, end.refused))...)
}

// bury1 queues the burial of the claimed ones of those that are no jobs.
func (b *batch) bury1(ctx context.Context, pipe redis.Pipeliner, here []int) *redis.IntCmd {
	if len(here) == 0 {
		return nil
	}
	now := troupe.FormatScore(troupe.Score(b.now))
	args := []any{"zadd", keys.Dead}
	for _, i := range here {
		args = append(args, now, b.dying.payloads[i])
	}
	cmd := redis.NewIntCmd(ctx, args...)
	_ = pipe.Process(ctx, cmd) // only queues it
	pipe.ZRemRangeByScore(ctx, keys.Dead, "-inf", troupe.FormatScore(troupe.Score(b.now.Add(-b.s.cfg.DeadTimeout))))
	pipe.ZRemRangeByRank(ctx, keys.Dead, 0, -int64(b.s.cfg.DeadMax))
	return cmd
}

// ending sorts claimed members by what became of them.
type ending struct {
	claimed          map[int]moving.Member
	arrived, refused []moving.Member
}

// group returns how many have arrived. Where no answer came it is not known: the
// members stay claimed, and the next mover takes them on after the deadline.
func (e *ending) group(at int, here []int, cmd *redis.IntCmd) int {
	var err error
	if cmd != nil {
		err = cmd.Err()
	}
	for _, i := range here {
		switch m := e.claimed[at+i]; {
		case err == nil:
			e.arrived = append(e.arrived, m)
		case errors.As(err, new(redis.Error)):
			e.refused = append(e.refused, m)
		}
	}
	if err != nil {
		return 0
	}
	return len(here)
}

// settleOnCluster deals with the answer of a destination as settle does.
func (b *batch) settleOnCluster(key string, g group, cmd *redis.IntCmd) error {
	if cmd == nil || cmd.Err() == nil {
		return b.settle(key, g, "")
	}
	if redis.HasErrorPrefix(cmd.Err(), "WRONGTYPE") {
		return b.settle(key, g, cmd.Err().Error())
	}
	b.cur.release(g.members)
	return fmt.Errorf("%s: %w", cut.Text(key), cmd.Err())
}
