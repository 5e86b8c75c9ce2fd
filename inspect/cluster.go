package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/moving"
)

// apart begins a MULTI, or on a cluster, where its keys are in several slots, a
// pipeline.
func (i *Inspector) apart() redis.Pipeliner {
	if moving.Needed(i.rdb) {
		return i.rdb.Pipeline()
	}
	return i.rdb.TxPipeline()
}

// enqueueOnCluster is enqueue where the set and the queues are in slots of their
// own; see package moving.
func (s *JobSet) enqueueOnCluster(ctx context.Context, lists []list) error {
	var all []any
	for _, l := range lists {
		for _, e := range l.entries {
			all = append(all, e.raw)
		}
	}
	claimed, err := moving.Claim(ctx, s.i.rdb, s.name, all)
	if err != nil {
		return err
	}
	pipe := s.i.rdb.Pipeline()
	pushes := make([]*redis.IntCmd, len(lists))
	at := 0
	for i := range lists {
		l := &lists[i]
		l.there = make([]bool, len(l.entries))
		var payloads []any
		for k := range l.entries {
			if _, l.there[k] = claimed[at+k]; l.there[k] {
				payloads = append(payloads, l.payloads[k])
			}
		}
		if payloads != nil {
			pipe.SAdd(ctx, keys.Queues, l.queue) // a list for people: the job moves even if that is broken
			pushes[i] = pipe.LPush(ctx, keys.Queue(l.queue), payloads...)
		}
		at += len(l.entries)
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx) // the errors are in the commands
	}
	var end ending
	at = 0
	for i := range lists {
		l := &lists[i]
		if pushes[i] != nil {
			if l.fault = end.group(claimed, at, len(l.entries), pushes[i].Err()); l.fault != nil {
				l.fault = fmt.Errorf("queue %s: %w", l.queue, l.fault)
			}
		}
		for _, e := range l.entries {
			if l.fault == nil {
				e.gone.Store(true)
			}
		}
		at += len(l.entries)
	}
	return moving.Finish(ctx, s.i.rdb, s.name, end.arrived, end.refused)
}

// buryOnCluster is bury where the two sets are in slots of their own.
func (s *JobSet) buryOnCluster(ctx context.Context, entries []*SortedEntry, now time.Time, oldest string) ([]bool, error) {
	all := make([]any, len(entries))
	for i, e := range entries {
		all[i] = e.raw
	}
	claimed, err := moving.Claim(ctx, s.i.rdb, s.name, all)
	if err != nil {
		return nil, err
	}
	there := make([]bool, len(entries))
	args := []any{"zadd", keys.Dead}
	for i := range entries {
		if _, there[i] = claimed[i]; there[i] {
			args = append(args, troupe.FormatScore(troupe.Score(now)), entries[i].deadText(now))
		}
	}
	var end ending
	if len(claimed) > 0 {
		pipe := s.i.rdb.Pipeline()
		added := redis.NewIntCmd(ctx, args...)
		_ = pipe.Process(ctx, added) // only queues it
		if oldest != "" {
			pipe.ZRemRangeByScore(ctx, keys.Dead, "-inf", oldest)
		}
		if s.i.deadMax > 0 {
			pipe.ZRemRangeByRank(ctx, keys.Dead, 0, -int64(s.i.deadMax))
		}
		_, _ = pipe.Exec(ctx) // read below
		err = end.group(claimed, 0, len(entries), added.Err())
	}
	if err = errors.Join(err, moving.Finish(ctx, s.i.rdb, s.name, end.arrived, end.refused)); err != nil {
		return nil, err
	}
	for _, e := range entries {
		e.gone.Store(true)
	}
	return there, nil
}

// ending sorts claimed members by what became of them. Where no answer came it is
// not known: the next mover takes them on after the deadline.
type ending struct{ arrived, refused []moving.Member }

func (e *ending) group(claimed map[int]moving.Member, at, n int, err error) error {
	for i := at; i < at+n; i++ {
		m, ok := claimed[i]
		switch {
		case !ok:
		case err == nil:
			e.arrived = append(e.arrived, m)
		case errors.As(err, new(redis.Error)):
			e.refused = append(e.refused, m)
		}
	}
	return err
}

// resetOnCluster is ResetStats with a command per key.
func (i *Inspector) resetOnCluster(ctx context.Context, pairs []any) error {
	_, err := i.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for k := 0; k < len(pairs); k += 2 {
			p.Set(ctx, fmt.Sprint(pairs[k]), pairs[k+1], 0)
		}
		return nil
	})
	return err
}

// historyOnCluster is History with a command per key.
func (i *Inspector) historyOnCluster(ctx context.Context, out []DayStats, processed, failed []any) error {
	var cmds []redis.Cmder
	for n := range out {
		cmds = append(cmds, redis.NewStringCmd(ctx, "get", processed[1+n]), redis.NewStringCmd(ctx, "get", failed[1+n]))
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return err
	}
	for n := range out {
		out[n].Processed = number(cmds[2*n].(*redis.StringCmd).Val())
		out[n].Failed = number(cmds[2*n+1].(*redis.StringCmd).Val())
	}
	return nil
}
