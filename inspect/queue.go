package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// Queue is one queue. It need not exist: a queue without jobs is no key in
// Redis.
type Queue struct {
	Name string // the bare name
	i    *Inspector
}

// Queue returns the queue of that bare name ("default").
func (i *Inspector) Queue(name string) *Queue { return &Queue{name, i} }

// key is the queue's list. On a cluster the suspects of a queue are in its slot.
func (q *Queue) key() string {
	if name, ok := strings.CutSuffix(q.Name, keys.SuspectsSuffix); ok && redisconn.OnCluster(q.in().db()) {
		return keys.ClusterSuspects(name)
	}
	return keys.Queue(q.Name)
}

// QueueSummary is what a list of queues shows of one.
type QueueSummary struct {
	*Queue
	Size   int64 // jobs that wait
	Paused bool  // the queue is in the set of paused ones

	// Latency is how long the oldest job has waited: the time since its enqueued_at, or
	// created_at if it has none; 0 if the queue is empty, or what is there is no job.
	Latency time.Duration
}

// Queues returns all queues that were ever pushed to and not cleared since, the fullest
// first.
func (i *Inspector) Queues(ctx context.Context) ([]QueueSummary, error) {
	names, err := i.members(ctx, keys.Queues)
	var all []QueueSummary
	if err == nil {
		all, err = i.summaries(ctx, names)
	}
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	slices.SortStableFunc(all, func(a, b QueueSummary) int { return cmp.Compare(b.Size, a.Size) })
	return all, nil
}

// Summary returns what a list of queues shows of this one.
func (q *Queue) Summary(ctx context.Context) (QueueSummary, error) {
	one, err := q.in().summaries(ctx, []string{q.Name})
	if err != nil {
		return QueueSummary{Queue: q}, q.wrap("summary", err)
	}
	return one[0], nil
}

func (i *Inspector) summaries(ctx context.Context, names []string) ([]QueueSummary, error) {
	const each = 2
	cmds := make([]redis.Cmder, 0, each*len(names))
	lists := make([]string, len(names))
	for n, name := range names {
		lists[n] = i.Queue(name).key()
		cmds = append(cmds, redis.NewIntCmd(ctx, "llen", lists[n]), redis.NewBoolCmd(ctx, "sismember", keys.Paused, name))
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return nil, err
	}
	oldest, err := i.firsts(ctx, fromTail, lists)
	if err != nil {
		return nil, err
	}
	out := make([]QueueSummary, len(names))
	for n, name := range names {
		out[n] = QueueSummary{
			Queue:   i.Queue(name),
			Size:    cmds[each*n].(*redis.IntCmd).Val(),
			Latency: latencyOf(oldest[n]),
			Paused:  cmds[each*n+1].(*redis.BoolCmd).Val(),
		}
	}
	return out, nil
}

// SetPaused pauses or unpauses the queue in all of troupe's processes and in those of Sidekiq
// Pro. While it is paused, no fetch takes jobs from it; jobs in progress go on, and jobs can
// still be pushed. It changes nothing if the queue is in that state already.
func (q *Queue) SetPaused(ctx context.Context, paused bool) error {
	if !paused {
		return q.wrap("unpause", q.in().db().SRem(ctx, keys.Paused, q.Name).Err())
	}
	return q.wrap("pause", q.in().db().SAdd(ctx, keys.Paused, q.Name).Err())
}

// Page returns limit jobs (1 or more) from offset on (0 is the newest), the newest first, and how
// many there are in all. Behind the last there are none, without an error.
func (q *Queue) Page(ctx context.Context, offset, limit int) (jobs []*QueuedJob, size int64, err error) {
	if offset < 0 || limit < 1 {
		return nil, 0, fmt.Errorf("page of queue %s: got offset %d and limit %d, expected at least 0 and 1", q.Name, offset, limit)
	}
	length := redis.NewIntCmd(ctx, "llen", q.key())
	page, err := q.in().page(ctx, fromHead, q.key(), offset, limit, length)
	if err != nil {
		return nil, 0, q.wrap("page", err)
	}
	for _, one := range page {
		jobs = append(jobs, q.job(one.text))
	}
	return jobs, length.Val(), nil
}

// Clear deletes as many jobs as the queue has, the oldest first, and the queue from the list of queues if it is
// empty then, and returns how many jobs it has deleted. The locks of unique jobs are freed. What is running is not
// touched. It works in pages, so that Redis answers others meanwhile, and in a Redis that is full, too.
func (q *Queue) Clear(ctx context.Context) (int64, error) {
	rdb := q.in().db()
	size, err := rdb.LLen(ctx, q.key()).Result()
	if err != nil {
		return 0, q.wrap("clear", err)
	}
	if redisconn.OnCluster(rdb) {
		n, err := q.in().clear(ctx, q.key(), fromQueueTail, size)
		return n, q.wrap("clear", errors.Join(err, q.forget(ctx)))
	}
	n, err := q.in().clear(ctx, q.key(), fromQueueTail, size, keys.Queues, q.Name)
	return n, q.wrap("clear", err)
}

// Each walks through the queue, newest first, in pages. The walk ends after an
// error. A job that stays in the queue throughout comes once, whatever is
// pushed, fetched and deleted meanwhile; of others some come. Only a queue whose
// last 100 jobs shown vanish between two pages may be shown in part.
func (q *Queue) Each(ctx context.Context) iter.Seq2[*QueuedJob, error] {
	return q.walk(ctx, queueWalk{q: q})
}

// OldestFirst walks through the queue as Each does, from the job on that is taken next.
func (q *Queue) OldestFirst(ctx context.Context) iter.Seq2[*QueuedJob, error] {
	return q.OldestAfter(ctx, 0)
}

// OldestAfter is OldestFirst without so many jobs at the beginning.
func (q *Queue) OldestAfter(ctx context.Context, skip int) iter.Seq2[*QueuedJob, error] {
	return q.walk(ctx, queueWalk{q: q, up: true, pos: min(max(skip, 0), math.MaxInt32)})
}

func (q *Queue) walk(ctx context.Context, w queueWalk) iter.Seq2[*QueuedJob, error] {
	return func(yield func(*QueuedJob, error) bool) {
		w := w // each range is a walk of its own
		for {
			page, err := w.next(ctx)
			if err != nil {
				yield(nil, q.wrap("walk", err))
				return
			}
			if len(page) == 0 {
				return
			}
			for _, job := range page {
				if !yield(job, nil) {
					return
				}
			}
		}
	}
}

func (q *Queue) wrap(verb string, err error) error {
	if err != nil {
		return fmt.Errorf("queue %s: %s: %w", q.Name, verb, err)
	}
	return nil
}

func outcomeOf(done bool) Outcome {
	if done {
		return Done
	}
	return Gone
}
