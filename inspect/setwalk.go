package inspect

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/scores"
)

const (
	setPage = 50 // entries of a page, as in Sidekiq

	// Pages are cut down to about this many bytes, so that sets of huge jobs
	// neither fill our memory nor stop Redis for long.
	pageBytes = 1 << 20
)

// setWalk goes through a sorted set in the order of score and bytes. It keeps
// its place by them and not by rank, so that nothing shifts under it. It calls plain
// commands that read, of which each page is one: a script, or a MULTI, is more than a
// user who may only read can do, or a Redis that is full.
type setWalk struct {
	set   *JobSet
	up    bool    // lowest score first
	score float64 // of the place; at the start, where to begin
	last  string  // the entry of the place; "" at the start
	begun bool
	page  []*SortedEntry // what next has returned last
	limit int            // entries of a page; 0 means setPage
	rank  int64          // of the entry that was read last, when it was; -1 if that is not known
}

// each yields entries until the end, an error or a false.
func (w *setWalk) each(ctx context.Context, yield func(*SortedEntry, error) bool) {
	for {
		page, err := w.next(ctx)
		if err != nil {
			yield(nil, w.set.wrap("walk", err))
			return
		}
		if len(page) == 0 {
			return
		}
		for _, e := range page {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// next returns the next page, nil at the end.
func (w *setWalk) next(ctx context.Context) ([]*SortedEntry, error) {
	// The place is found by an entry that is still there. If none is, the page
	// starts at the first entry of the same score, and those are passed over
	// that come before the place.
	anchor := ""
	for n, e := range slices.Backward(w.page) {
		if e.Score == w.score && !e.gone.Load() {
			if anchor = "=" + e.Raw; n < len(w.page)-1 {
				w.rank = -1
			}
			break
		}
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		page, err := w.read(ctx, anchor)
		if err != nil || len(page) == 0 {
			return nil, err
		}
		end := page[len(page)-1]
		if page = slices.DeleteFunc(page, w.passed); len(page) > 0 {
			w.score, w.last, w.begun, w.page = end.Score, end.Raw, true, page
			return page, nil
		}
		anchor = "=" + end.Raw // all of them have the score of the place
	}
}

// passed tells whether the walk has been at e.
func (w *setWalk) passed(e *SortedEntry) bool {
	return w.begun && e.Score == w.score && (e.Raw == w.last || (e.Raw < w.last) == w.up)
}

// read returns the entries behind the anchor, "=" and a member with the score of the place, or
// from the first one of that score on if there is no anchor, or it is not there any more.
func (w *setWalk) read(ctx context.Context, anchor string) ([]*SortedEntry, error) {
	if w.limit == 0 {
		w.limit = setPage
	}
	page, found, err := []redis.Z(nil), false, error(nil)
	if anchor != "" {
		page, found, err = w.behind(ctx, anchor[1:])
	}
	if err == nil && !found {
		w.rank = -1
		end := "+inf"
		if !w.up {
			end = "-inf"
		}
		page, err = w.set.i.rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
			Key: w.set.Name, ByScore: true, Rev: !w.up, Start: scores.Format(w.score), Stop: end, Count: int64(w.limit),
		}).Result()
	}
	if err != nil {
		return nil, err
	}
	size := 0
	entries := make([]*SortedEntry, len(page))
	for i, z := range page {
		raw, _ := z.Member.(string)
		entries[i] = w.set.entry(raw, z.Score)
		size += len(raw)
	}
	if size > pageBytes {
		w.limit = max(1, len(page)*pageBytes/size)
	} else if size < pageBytes/2 {
		w.limit = min(setPage, 2*w.limit)
	}
	return entries, nil
}

// mostTries is how often an entry is looked for that moves while others are added and removed
// in front of it. Each time a longer page is read.
const mostTries = 4

// behind returns the entries behind a member that has the score of the place; found is false if
// it was not met. A page is read from where the member was, and it has to be on it: what
// follows it there does so at one instant.
func (w *setWalk) behind(ctx context.Context, member string) (page []redis.Z, found bool, err error) {
	for try := range int64(mostTries) {
		if w.rank < 0 {
			rankOf := w.set.i.rdb.ZRank
			if !w.up {
				rankOf = w.set.i.rdb.ZRevRank
			}
			if w.rank, err = rankOf(ctx, w.set.Name, member).Result(); err != nil {
				w.rank = -1
				if errors.Is(err, redis.Nil) {
					err = nil
				}
				return nil, false, err
			}
		}
		slack := try * int64(w.limit)
		first, last := max(0, w.rank-slack), w.rank+slack+int64(w.limit)
		page, err = w.set.i.rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: w.set.Name, Rev: !w.up, Start: first, Stop: last}).Result()
		if err != nil {
			return nil, false, err
		}
		at := slices.IndexFunc(page, func(z redis.Z) bool { return z.Member == member })
		switch whole := int64(len(page)) <= last-first; { // it reaches to the end of the set
		case at >= 0 && page[at].Score != w.score:
			return nil, false, nil
		case at >= 0 && (at < len(page)-1 || whole):
			w.rank = first + int64(len(page)) - 1
			return page[at+1:], true, nil
		}
		w.rank = -1
	}
	return nil, false, nil
}
