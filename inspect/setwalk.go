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
// its position by them and not by rank, so that nothing shifts under it. It calls plain
// commands that read, of which each page is one: a script, or a MULTI, is more than a
// user who may only read can do, or a Redis that is full.
type setWalk struct {
	set   *JobSet
	up    bool    // lowest score first
	score float64 // of the position; at the start, where to begin
	last  text    // the entry at the position; the zero text at the start
	begun bool
	page  []*SortedEntry // what next has returned last
	limit int            // entries of a page; 0 means setPage
	rank  int64          // of the entry that was read last, when it was; -1 if that is not known
	ended bool           // what was read last reached to the end of the set
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
	if w.ended { // what has come behind since need not be met
		return nil, nil
	}
	// The position is found by an entry that is still there. If none is, the page
	// starts at the first entry of the same score, and those are passed over
	// that come before the position.
	var anchor *text
	for n, e := range slices.Backward(w.page) {
		if e.Score == w.score && !e.gone.Load() {
			if anchor = &e.text; n < len(w.page)-1 {
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
			w.score, w.last, w.begun, w.page = end.Score, end.text, true, page
			return page, nil
		}
		anchor = &end.text // all of them have the score of the position
	}
}

// passed reports whether the walk has been at e.
func (w *setWalk) passed(e *SortedEntry) bool {
	return w.begun && e.Score == w.score && (e.text == w.last || e.text.head != w.last.head && (e.text.head < w.last.head) == w.up)
}

// read returns the entries behind the anchor, an entry with the score of the position, or
// from the first one of that score on if there is no anchor, or it is not there any more.
func (w *setWalk) read(ctx context.Context, anchor *text) ([]*SortedEntry, error) {
	if w.limit == 0 {
		w.limit = setPage
		if w.set.in().MaxRead > 0 && w.set.in().noScripts.Load() {
			w.limit = 1
		}
	}
	page, found, err := []read(nil), false, error(nil)
	if anchor != nil {
		page, found, err = w.behind(ctx, *anchor)
	}
	if err == nil && !found {
		page, w.rank, w.ended, err = w.set.fromScore(ctx, w.score, w.up, w.limit)
		if w.rank >= 0 {
			w.rank += int64(len(page)) - 1
		}
	}
	if err != nil {
		return nil, err
	}
	entries := make([]*SortedEntry, len(page))
	for i, one := range page {
		entries[i] = w.set.entry(one.text, one.score)
	}
	w.limit = pageAfter(w.limit, setPage, page)
	return entries, nil
}

// fromScore reads entries from the first of a score on, and the rank of that one; -1 if it is not
// known. Ended reports whether no other entry follows.
func (s *JobSet) fromScore(ctx context.Context, score float64, up bool, limit int) (page []read, rank int64, ended bool, err error) {
	r := reading{where: scoreDown, key: s.Name, first: scores.Format(score), count: limit, least: 1}
	if up {
		r.where = scoreUp
	}
	windows, err := s.in().read(ctx, []reading{r})
	if err != nil {
		return nil, -1, false, err
	}
	w := windows[0]
	return w.all, w.rank, len(w.all) < limit && !w.more, nil
}

// mostTries is how often an entry is looked for that moves while others are added and removed
// in front of it. Each time a longer page is read.
const mostTries = 4

// behind returns the entries behind a member that has the score of the position; found is false if
// it was not met. A page is read from where the member was, and it has to be on it: what
// follows it there does so at one instant.
func (w *setWalk) behind(ctx context.Context, member text) (page []read, found bool, err error) {
	where := fromHigh
	if w.up {
		where = fromLow
	}
	for try := range mostTries {
		if w.rank < 0 {
			if w.rank, err = w.set.rank(ctx, member, w.score, w.up); err != nil || w.rank < 0 {
				return nil, false, err
			}
		}
		slack := try * w.limit
		first := max(0, int(w.rank)-slack)
		count := int(w.rank) - first + slack + w.limit + 1
		windows, err := w.set.in().read(ctx, []reading{position(where, w.set.Name, first, count, int(w.rank)-first+2)})
		if err != nil {
			return nil, false, err
		}
		page := windows[0].all
		at := slices.IndexFunc(page, func(one read) bool { return one.text == member })
		switch whole := len(page) < count && !windows[0].more; { // it reaches to the end of the set
		case at >= 0 && page[at].score != w.score:
			return nil, false, nil
		case at >= 0 && (at < len(page)-1 || whole):
			w.rank, w.ended = int64(first+len(page)-1), whole
			return page[at+1:], true, nil
		}
		w.rank = -1
	}
	return nil, false, nil
}

// rank returns the rank of an entry with a score; -1 if it is not there.
func (s *JobSet) rank(ctx context.Context, member text, score float64, up bool) (int64, error) {
	if !member.cut() {
		rankOf := s.in().db().ZRank
		if !up {
			rankOf = s.in().db().ZRevRank
		}
		rank, err := rankOf(ctx, s.Name, member.head).Result()
		if errors.Is(err, redis.Nil) {
			return -1, nil
		}
		if err != nil {
			return -1, err
		}
		return rank, nil
	}
	where := fromHigh
	if up {
		where = fromLow
	}
	page, rank, _, err := s.fromScore(ctx, score, up, 1)
	for limit := 1; err == nil && rank >= 0 && len(page) > 0; {
		for n, one := range page {
			if one.score != score {
				return -1, nil
			}
			if one.text == member {
				return rank + int64(n), nil
			}
		}
		rank += int64(len(page))
		limit = pageAfter(limit, setPage, page)
		page, err = s.in().page(ctx, where, s.Name, int(rank), limit)
	}
	return -1, err
}
