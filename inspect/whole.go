package inspect

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// whole is the entry with all of its bytes, to be acted on; nil if it is not there any more. Only a
// cut one is read again, and is found by its score, both ends and its length.
func (e *SortedEntry) whole(ctx context.Context) (*SortedEntry, error) {
	if !e.Cut() {
		return e, nil
	}
	for range mostTries { // others may be added and removed in front of it
		rank, err := e.Set.rank(ctx, e.text, e.Score, true)
		if err != nil || rank < 0 {
			return nil, err
		}
		page, err := e.Set.in().db().ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: e.Set.Name, Start: rank, Stop: rank}).Result()
		if err != nil {
			return nil, err
		}
		for _, z := range page {
			if raw, _ := z.Member.(string); e.Set.in().ends(raw) == e.text {
				return e.Set.entry(text{head: raw, size: int64(len(raw))}, z.Score), nil
			}
		}
	}
	return nil, nil
}

// Whole returns all bytes of the entry; false if it is not there any more.
func (e *SortedEntry) Whole(ctx context.Context) (raw string, there bool, err error) {
	if e.Set == nil {
		return "", false, errNotMade
	}
	all, err := e.whole(ctx)
	if err != nil || all == nil {
		return "", false, e.Set.wrap("read an entry", err)
	}
	return all.Raw, true, nil
}

// Whole returns all bytes of the job; false if it is not in its queue any more.
func (j *QueuedJob) Whole(ctx context.Context) (raw string, there bool, err error) {
	if j.q == nil {
		return "", false, errNotMade
	}
	all, err := j.whole(ctx)
	if err != nil || all == nil {
		return "", false, j.q.wrap("read a job", err)
	}
	return all.Raw, true, nil
}

// onWhole acts on the job with all of its bytes.
func (j *QueuedJob) onWhole(ctx context.Context, verb string, act func(all *QueuedJob) (Outcome, error)) (Outcome, error) {
	all, err := j.whole(ctx)
	if err != nil || all == nil {
		return Gone, j.q.wrap(verb, err)
	}
	outcome, err := act(all)
	if all.gone.Load() {
		j.gone.Store(true)
	}
	return outcome, err
}

// whole is the job with all of its bytes, found by both ends and its length; nil if it is not there any more.
func (j *QueuedJob) whole(ctx context.Context) (*QueuedJob, error) {
	if !j.Cut() {
		return j, nil
	}
	for range mostTries { // others may be pushed and fetched meanwhile
		at, err := j.q.find(ctx, j.text)
		if err != nil || at < 0 {
			return nil, err
		}
		page, err := j.q.in().db().LRange(ctx, j.q.key(), int64(-at-1), int64(-at-1)).Result()
		if err != nil {
			return nil, err
		}
		for _, raw := range page {
			if j.q.in().ends(raw) == j.text {
				return j.q.Job(raw), nil
			}
		}
	}
	return nil, nil
}

// find returns where a job is, counted from the tail; -1 if it is not there. Pushes do not shift
// that, and what is fetched meanwhile only brings it nearer.
func (q *Queue) find(ctx context.Context, job text) (int, error) {
	limit := 1
	for at := 0; ; {
		page, err := q.in().page(ctx, fromTail, q.key(), at, limit)
		if err != nil || len(page) == 0 {
			return -1, err
		}
		if n := slices.IndexFunc(page, func(one read) bool { return one.text == job }); n >= 0 {
			return at + n, nil
		}
		at += len(page)
		limit = pageAfter(limit, maxFind, page)
	}
}

// maxFind is how many jobs are looked at in one step.
const maxFind = 500

// alone splits entries: a cut one is acted on by itself, so that only one is held whole.
func alone(page []*SortedEntry) (groups [][]*SortedEntry) {
	for _, e := range page {
		if n := len(groups); n > 0 && !e.Cut() && !groups[n-1][0].Cut() {
			groups[n-1] = append(groups[n-1], e)
			continue
		}
		groups = append(groups, []*SortedEntry{e})
	}
	return groups
}

// wholes are the entries of a group of alone; nil for one that is not there any more.
func wholes(ctx context.Context, group []*SortedEntry) ([]*SortedEntry, error) {
	if len(group) != 1 {
		return group, nil
	}
	all, err := group[0].whole(ctx)
	if err != nil || all == nil {
		return nil, err
	}
	return []*SortedEntry{all}, nil
}
