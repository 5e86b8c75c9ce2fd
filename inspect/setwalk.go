package inspect

import (
	"context"
	_ "embed"
	"slices"
	"strconv"

	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/script"
)

//go:embed page.lua
var pageSource string

var pageScript = script.New("inspect.page", pageSource)

const (
	setPage = 50 // entries of a page, as in Sidekiq

	// Pages are cut down to about this many bytes, so that sets of huge jobs
	// neither fill our memory nor stop Redis for long.
	pageBytes = 1 << 20
)

// setWalk goes through a sorted set in the order of score and bytes. It keeps
// its place by them and not by rank, so that nothing shifts under it.
type setWalk struct {
	set   *JobSet
	up    bool    // lowest score first
	score float64 // of the place; at the start, where to begin
	last  string  // the entry of the place; "" at the start
	begun bool
	page  []*SortedEntry // what next has returned last
	limit int            // entries of a page; 0 means setPage
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
	// Redis finds the place by an entry that is still there. If none is, it
	// starts at the first entry of the same score, and those are passed over
	// that come before the place.
	anchor := ""
	for _, e := range slices.Backward(w.page) {
		if e.Score == w.score && !e.gone.Load() {
			anchor = "=" + e.Raw
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

func (w *setWalk) read(ctx context.Context, anchor string) ([]*SortedEntry, error) {
	direction := "down"
	if w.up {
		direction = "up"
	}
	if w.limit == 0 {
		w.limit = setPage
	}
	reply, err := pageScript.Run(ctx, w.set.i.rdb, []string{w.set.Name},
		direction, scores.Format(w.score), anchor, w.limit).StringSlice()
	if err != nil {
		return nil, err
	}
	size := 0
	page := make([]*SortedEntry, 0, len(reply)/2)
	for ; len(reply) >= 2; reply = reply[2:] {
		score, err := strconv.ParseFloat(reply[1], 64)
		if err != nil {
			return nil, err
		}
		page = append(page, w.set.entry(reply[0], score))
		size += len(reply[0])
	}
	if size > pageBytes {
		w.limit = max(1, len(page)*pageBytes/size)
	} else if size < pageBytes/2 {
		w.limit = min(setPage, 2*w.limit)
	}
	return page, nil
}
