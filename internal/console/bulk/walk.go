package bulk

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/scores"
)

// Walk goes through the entries of a set that a filter matches, or through the jobs of a queue, the
// next one to run first.
type Walk struct {
	Set    *inspect.JobSet // or
	Queue  *inspect.Queue
	Up     bool // the lowest score first
	Filter *Filter
	After  string        // the Key of the last entry before, for a queue its position; "" to begin at the first
	Most   int           // entries to read
	Long   time.Duration // to go on, checked after each entry
}

// Walked is how far a walk has come.
type Walked struct {
	Looked int    // entries
	End    bool   // there are no more
	Next   string // After for those that follow; "" if there are none
}

// Walk calls do with the entries, until it returns false. The error is ErrKey for an After that is no key.
func (ks Keys) Walk(ctx context.Context, way Walk, do func(Entry, Key) bool) (w Walked, err error) {
	if way.Queue != nil {
		return ks.walkQueued(ctx, way, do)
	}
	began, f := time.Now(), way.Filter
	start, outside := math.Inf(1), func(at time.Time) bool { return at.Before(f.Since) }
	if way.Up {
		start, outside = math.Inf(-1), func(at time.Time) bool { return !f.Until.IsZero() && !at.Before(f.Until) }
		if !f.Since.IsZero() {
			start = scores.Of(f.Since)
		}
	} else if !f.Until.IsZero() {
		start = scores.Of(f.Until)
	}
	var behind, seen *inspect.SortedEntry
	last := Key{score: math.NaN()}
	if way.After != "" {
		p, err := ParseKey(way.After)
		if err != nil {
			return w, err
		}
		found, first, _, err := ks.near(ctx, way.Set, p, way.Up)
		if err != nil {
			return w, err
		}
		last, start, behind = p, p.score, first
		switch {
		case found != nil:
			behind = found
		case first != nil:
			last.before -= around
		default:
			last.before = -1
		}
	}
	defer func() {
		if seen != nil && !w.End {
			p := ks.Of(seen, last.before)
			p.JID = ""
			w.Next = p.String()
		}
	}()
	for e, err := range way.Set.From(ctx, start, behind, way.Up) {
		if err != nil {
			return w, err
		}
		if outside(e.At) {
			break
		}
		if w.Looked >= way.Most || w.Looked > 0 && time.Since(began) > way.Long {
			return w, nil
		}
		before := int64(0)
		if e.Score == last.score {
			before = last.before + 1
		}
		if f.Match(&e.JobRecord, e.At) && !do(Entry{Sorted: e}, ks.Of(e, before)) {
			return w, nil
		}
		w.Looked++
		last, seen = Key{score: e.Score, before: before}, e
	}
	w.End = true
	return w, nil
}

// walkQueued is Walk for a queue.
func (ks Keys) walkQueued(ctx context.Context, way Walk, do func(Entry, Key) bool) (w Walked, err error) {
	began, from := time.Now(), 0
	if way.After != "" {
		if from, err = strconv.Atoi(way.After); err != nil || from < 0 {
			return w, ErrKey
		}
	}
	for j, err := range way.Queue.OldestAfter(ctx, from) {
		if err != nil {
			return w, err
		}
		e := Entry{Queued: j}
		if w.Looked >= way.Most || w.Looked > 0 && time.Since(began) > way.Long ||
			way.Filter.Match(&j.JobRecord, e.When()) && !do(e, ks.OfQueued(&j.JobRecord, way.Queue.Name, int64(from+w.Looked+1))) {
			w.Next = strconv.Itoa(from + w.Looked)
			return w, nil
		}
		w.Looked++
	}
	w.End = true
	return w, nil
}
