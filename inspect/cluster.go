package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/moving"
	"github.com/troupehq/troupe/internal/scores"
)

// clearOnCluster is Clear where the list and the names of the queues are in several slots. A
// queue that is pushed to meanwhile stays in the list of queues.
func (q *Queue) clearOnCluster(ctx context.Context) (int64, error) {
	pipe := q.in().db().Pipeline()
	pipe.SRem(ctx, keys.Queues, q.Name)
	size := pipe.LLen(ctx, q.key())
	pipe.Unlink(ctx, q.key())
	_, err := pipe.Exec(ctx)
	return size.Val(), q.wrap("clear", err)
}

// enqueueOnCluster is enqueue where the set and the queues are in slots of their
// own; see package moving.
func (s *JobSet) enqueueOnCluster(ctx context.Context, lists []list) error {
	groups := make([]*moving.Group, len(lists))
	for i, l := range lists {
		groups[i] = &moving.Group{Key: keys.Queue(l.queue), Queue: l.queue}
		for k, e := range l.entries {
			groups[i].Members, groups[i].Payloads = append(groups[i].Members, e.Raw), append(groups[i].Payloads, l.payloads[k])
		}
	}
	err := moving.Move(ctx, s.in().db(), s.Name, groups, moving.Death{})
	for i, g := range groups {
		l := &lists[i]
		switch {
		case g.There == nil: // nothing was claimed
		case g.Fault != nil:
			l.fault = fmt.Errorf("queue %s: %w", l.queue, g.Fault)
		default:
			gone(l.entries)
		}
		l.there = g.There
	}
	return err
}

// killOnCluster is kill where the two sets are in slots of their own.
func (s *JobSet) killOnCluster(ctx context.Context, entries []*SortedEntry, now time.Time, trim limits.Trim) ([]bool, error) {
	g := moving.Group{Key: keys.Dead}
	for _, e := range entries {
		g.Members, g.Payloads = append(g.Members, e.Raw), append(g.Payloads, e.deadText(now))
	}
	death := moving.Death{Score: scores.Format(scores.Of(now)), Trim: trim}
	err := moving.Move(ctx, s.in().db(), s.Name, []*moving.Group{&g}, death)
	if err = errors.Join(g.Fault, err); err != nil {
		return nil, err
	}
	gone(entries)
	return g.There, nil
}

// resetOnCluster is ResetStats with a command per key.
func (i *Inspector) resetOnCluster(ctx context.Context, pairs []any) error {
	_, err := i.db().Pipelined(ctx, func(p redis.Pipeliner) error {
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
