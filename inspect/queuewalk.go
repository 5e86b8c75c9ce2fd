package inspect

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"
)

// queuePage is the number of jobs of a page, as in Sidekiq.
const queuePage = 50

// queueWalk goes through a list from its head. Positions shift while it does:
// pushes move everything away from the head, deletions towards it. (Fetches
// take from the tail and move nothing; Sidekiq, which only looks at the length,
// takes them for deletions and shows jobs twice.) So each page is read together
// with the one before, and begins behind the last job of it that is still there.
//
// It only reads, and without MULTI, which Redis refuses when it is full: what is read beside a page
// may be of a moment later.
//
// Up it goes from the tail, and head and tail change their parts.
type queueWalk struct {
	q    *Queue
	up   bool
	pos  int          // where the next job is if nothing has shifted
	seen []*QueuedJob // the jobs before pos, at most seenMax of them
	end  int          // length of the queue when it was last read
	tail text         // its oldest job then

	limit int // jobs of a page; 0 means queuePage
}

const seenMax = 2 * queuePage

// next returns the next page, nil at the end.
func (w *queueWalk) next(ctx context.Context) ([]*QueuedJob, error) {
	before := len(w.seen)
	w.seen = slices.DeleteFunc(w.seen, func(j *QueuedJob) bool { return j.gone.Load() })
	deleted := before - len(w.seen) // by the walk's own user
	w.pos, w.end = w.pos-deleted, w.end-deleted
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if w.limit == 0 {
			w.limit = queuePage
			if w.q.in().MaxRead > 0 && w.q.in().noScripts.Load() {
				w.limit = 1
			}
		}
		from, to := max(0, w.pos-len(w.seen)), w.pos+w.limit
		tail, behind := w.tail, w.end-w.pos
		window, more, err := w.read(ctx, from, to)
		if err != nil {
			return nil, err
		}
		at := w.anchor(window, w.pos-from)
		whole := len(window) < to-from && !more // it reaches to the end of the queue
		switch {
		case len(w.seen) == 0 || at >= 0 && (at < len(window)-1 || whole):
			return w.page(window[at+1:], from+at+1), nil
		case len(window) == 0 && from == 0:
			return nil, nil
		}
		if found, err := w.locate(ctx, tail, behind); err != nil || !found {
			return nil, err
		}
	}
}

// read returns the jobs at from ≤ position < to, and whether there are more of them: fewer are
// read if they are long, but at least one behind those that were seen.
func (w *queueWalk) read(ctx context.Context, from, to int) (window []read, more bool, err error) {
	here, there := fromHead, fromTail
	if w.up {
		here, there = there, here
	}
	length := redis.NewIntCmd(ctx, "llen", w.q.key())
	windows, err := w.q.in().read(ctx, []reading{
		position(here, w.q.key(), from, to-from, len(w.seen)+1), position(there, w.q.key(), 0, 1, 1),
	}, length)
	if err != nil {
		return nil, false, err
	}
	w.end, w.tail = int(length.Val()), text{}
	if len(windows[1].all) > 0 {
		w.tail = windows[1].all[0].text
	}
	return windows[0].all, windows[0].more, nil
}

// anchor returns where in the window the newest of the seen jobs is that can be
// found there, -1 if none can. What follows it has not been seen, unless
// nothing follows. end is where they would end if nothing had shifted: of equal
// bytes, the nearest to their position count.
func (w *queueWalk) anchor(window []read, end int) int {
	for n, job := range slices.Backward(w.seen) {
		position, best := end-len(w.seen)+n, -1
		for i, one := range window {
			if one.text == job.text && (best < 0 || abs(i-position) < abs(best-position)) {
				best = i
			}
		}
		if best >= 0 {
			return best
		}
	}
	return -1
}

// locate finds out where the seen jobs are after a shift of more than a page,
// false if the walk is over. tail is the oldest job when it was last known where
// they are, behind the number of jobs from there on.
func (w *queueWalk) locate(ctx context.Context, tail text, behind int) (bool, error) {
	find := func(job text, rank int64) (int, bool, error) {
		if job.cut() {
			return 0, false, nil // Redis finds whole ones
		}
		if w.up {
			rank = -rank
		}
		pipe := w.q.in().db().Pipeline()
		position, length := pipe.LPos(ctx, w.q.key(), job.head, redis.LPosArgs{Rank: rank}), pipe.LLen(ctx, w.q.key())
		_, err := pipe.Exec(ctx)
		if errors.Is(err, redis.Nil) {
			return 0, false, nil
		}
		at := int(position.Val())
		if w.up {
			at = int(length.Val()) - 1 - at
		}
		return at, err == nil, err
	}
	last := len(w.seen) - 1
	for _, n := range []int{last, last / 2, 0} {
		at, found, err := find(w.seen[n].text, 1)
		if err != nil {
			return false, err
		}
		if found {
			w.pos = at + len(w.seen) - n
			return true, nil
		}
	}
	// None is left. If they were fetched, so was the tail and all between; if
	// they were deleted, what is behind them still ends with the tail.
	at, found, err := find(tail, -1)
	if found {
		w.pos, w.seen = max(0, at+1-behind), nil
	}
	return found, err
}

// page makes jobs of a page that begins at pos.
func (w *queueWalk) page(page []read, pos int) []*QueuedJob {
	jobs := make([]*QueuedJob, len(page))
	for i, one := range page {
		jobs[i] = w.q.job(one.text)
	}
	w.pos = pos + len(jobs)
	w.seen = append(w.seen, jobs...)
	w.seen = slices.Clone(w.seen[max(0, len(w.seen)-seenMax):])
	if w.q.in().MaxRead > 0 { // they are read again with the next page
		size := int64(0)
		for n, job := range slices.Backward(w.seen) {
			if size += job.Size; size > pageBytes && n < len(w.seen)-1 {
				w.seen = slices.Clone(w.seen[n+1:])
				break
			}
		}
		w.limit = pageAfter(w.limit, queuePage, page)
	}
	return jobs
}

func abs(n int) int { return max(n, -n) }
