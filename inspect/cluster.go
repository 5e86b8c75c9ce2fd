package inspect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/moving"
	"github.com/troupehq/troupe/internal/scores"
)

// forget takes the queue off the list of queues, which is in another slot, unless something is pushed to it meanwhile,
// or its limits hold jobs, which are found by it.
func (q *Queue) forget(ctx context.Context) error {
	rdb := q.in().db()
	err := rdb.SRem(ctx, keys.Queues, q.Name).Err()
	if err == nil && (rdb.LLen(ctx, q.key()).Val() > 0 || rdb.Exists(ctx, keys.HeldRules(keys.LimitBase(q.Name, true))).Val() > 0) {
		err = rdb.SAdd(ctx, keys.Queues, q.Name).Err()
	}
	return err
}

// enqueueOnCluster is enqueue where the set and the queues are in slots of their
// own; see package moving. The locks are taken first, and those of jobs that did not move are freed again.
func (s *JobSet) enqueueOnCluster(ctx context.Context, lists []list) error {
	taken, err := s.in().take(ctx, lists)
	if err != nil {
		return err
	}
	groups := make([]*moving.Group, len(lists))
	for i, l := range lists {
		groups[i] = &moving.Group{Key: keys.Queue(l.queue), Queue: l.queue}
		for k, e := range l.entries {
			groups[i].Members, groups[i].Payloads = append(groups[i].Members, e.Raw), append(groups[i].Payloads, l.payloads[k])
		}
	}
	err = moving.Move(ctx, s.in().db(), s.Name, groups, moving.Death{})
	var unused []*job.Lock
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
		for k := range l.entries {
			known := g.There != nil && (g.Fault == nil || errors.As(g.Fault, new(redis.Error)))
			if lock := l.locks[k]; lock != nil && taken[lock] && known && (!g.There[k] || g.Fault != nil) {
				unused = append(unused, lock)
			}
		}
	}
	s.in().free(ctx, unused)
	return err
}

// take takes the locks of entries, and tells which nobody held. Those whose lock another job holds leave their lists.
func (i *Inspector) take(ctx context.Context, lists []list) (taken map[*job.Lock]bool, err error) {
	taken = map[*job.Lock]bool{}
	defer func() {
		if err != nil { // nothing is moved
			i.free(ctx, slices.Collect(maps.Keys(taken)))
		}
	}()
	for n := range lists {
		l := &lists[n]
		was := *l
		l.entries, l.payloads, l.locks = nil, nil, nil
		for k, lock := range was.locks {
			holder := ""
			if lock != nil {
				free, err := i.db().SetNX(ctx, lock.Key, lock.JID, lock.For).Result()
				if err != nil {
					return taken, err
				}
				if free {
					taken[lock], holder = true, lock.JID
				} else {
					if holder, err = i.db().Get(ctx, lock.Key).Result(); err != nil && !errors.Is(err, redis.Nil) {
						return taken, err
					}
				}
				if holder != lock.JID {
					l.held = append(l.held, &client.DuplicateError{Holder: holder, Lock: lock.Key})
					continue
				}
			}
			l.entries, l.payloads, l.locks = append(l.entries, was.entries[k]), append(l.payloads, was.payloads[k]), append(l.locks, lock)
		}
	}
	return taken, nil
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
	var locks []*job.Lock
	for k, e := range entries {
		if g.There[k] {
			locks = append(locks, e.lock(true))
		}
	}
	s.in().free(ctx, locks)
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
