package sched

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/moving"
)

// applyOnCluster is apply where the set, the queues and dead are in slots of
// their own: claim, write, finish; see package moving.
func (b *batch) applyOnCluster(ctx context.Context) (out Promoted, err error) {
	rdb, set := b.s.cfg.Redis, string(b.set)
	var all []any
	for _, g := range b.groups {
		all = appendAll(all, g.members)
	}
	claimed, err := moving.Claim(ctx, rdb, set, all)
	if err != nil {
		return out, err
	}
	pipe, at := rdb.Pipeline(), 0
	here, sent := make([][]moving.Member, len(b.groups)), make([]*redis.IntCmd, len(b.groups))
	for i, g := range b.groups {
		var texts []any
		for k := range g.members {
			if m, ok := claimed[at+k]; ok {
				here[i], texts = append(here[i], m), append(texts, g.payloads[k])
			}
		}
		at += len(g.members)
		switch {
		case len(texts) == 0 || i == dropped:
		case i == dying:
			sent[i] = b.toDead(ctx, pipe, texts)
		default:
			pipe.SAdd(ctx, keys.Queues, g.queue) // a list for people: the job moves even if that is broken
			sent[i] = pipe.LPush(ctx, g.key, texts...)
		}
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx) // the errors are in the commands
	}

	// Where no answer came it is not known what became of the members: they stay
	// claimed, and the next mover takes them on after the deadline.
	var arrived, refused []moving.Member
	for i, g := range b.groups {
		var fault error
		if sent[i] != nil {
			fault = sent[i].Err()
		}
		if fault == nil {
			arrived = append(arrived, here[i]...)
			out.count(i, len(here[i]))
			b.cur.held.remove(g.members)
			continue
		}
		if errors.As(fault, new(redis.Error)) {
			refused = append(refused, here[i]...)
		}
		err = errors.Join(err, b.refused(g, fault))
	}
	// What was written must not stay claimed because a stop begins just now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	return out, errors.Join(err, moving.Finish(ctx, rdb, set, arrived, refused))
}

// toDead queues the way of texts into the dead set.
func (b *batch) toDead(ctx context.Context, pipe redis.Pipeliner, texts []any) *redis.IntCmd {
	death := b.s.death(b.now)
	args := []any{"zadd", keys.Dead}
	for _, text := range texts {
		args = append(args, death[0], text)
	}
	cmd := redis.NewIntCmd(ctx, args...)
	_ = pipe.Process(ctx, cmd) // only queues it
	pipe.Do(ctx, "zremrangebyscore", keys.Dead, "-inf", death[1])
	pipe.ZRemRangeByRank(ctx, keys.Dead, 0, -int64(b.s.cfg.DeadMax))
	return cmd
}
