package inspect

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/errchain"
)

// Counts is what an operation on many entries did.
type Counts struct {
	Done    int // by this call
	Gone    int // taken by somebody else before it was their turn
	Stopped int // removed, since client middleware stopped them on their way to the queue
	Left    int // still in the set: no jobs, middleware fails on them, the queue is a key of another type, another job holds the lock

	// Fault says why the first of those Left was; nil if none was.
	Fault error
}

func (c *Counts) leave(n int, why error) {
	c.Left += n
	if c.Fault == nil {
		c.Fault = why
	}
}

// Bulk narrows or follows an operation on many entries; the zero value does neither.
type Bulk struct {
	// Where chooses entries; the others stay and are not counted. Nil chooses all.
	Where func(*SortedEntry) bool

	// Follow is called with each entry that was Done, after it was: to run death
	// handlers, or to show progress. A panic in it does not end the operation; the
	// first one is its error in the end, a *troupe.PanicError.
	Follow func(*SortedEntry)
}

// RetryAll is SortedEntry.Retry for the whole set, the highest score first, as
// with Sidekiq 6: retries that fail again meanwhile come back with a higher
// score than they had, and are not met a second time.
//
// This and the other operations on many entries work in pages, each entry being
// moved in one atomic step, until the end of the set, of ctx, or an error. On an
// error the counts hold but for the page that failed. Any number of them may run
// at once.
func (s *JobSet) RetryAll(ctx context.Context, b Bulk) (Counts, error) {
	s = s.made()
	if err := s.refuse(); err != nil {
		return Counts{}, s.wrap("retry all", err)
	}
	return s.all(ctx, "retry all", b, func(b *bulk, page []*SortedEntry) error {
		return b.retry(ctx, page)
	})
}

// KillAll is SortedEntry.Kill for the whole set.
func (s *JobSet) KillAll(ctx context.Context, b Bulk) (Counts, error) {
	s = s.made()
	return s.all(ctx, "kill all", b, func(b *bulk, page []*SortedEntry) error {
		there, err := s.kill(ctx, page)
		if err == nil {
			b.count(page, there)
		}
		return err
	})
}

// DeleteAll is SortedEntry.Delete for the whole set, entry by entry; see also
// Clear.
func (s *JobSet) DeleteAll(ctx context.Context, b Bulk) (Counts, error) {
	s = s.made()
	return s.all(ctx, "delete all", b, func(b *bulk, page []*SortedEntry) error {
		there, err := s.remove(ctx, page)
		if err == nil {
			b.count(page, there)
		}
		return err
	})
}

// bulk is an operation on many entries under way.
type bulk struct {
	Bulk
	set    *JobSet
	counts Counts
	panics error // the first panic of follow
}

func (s *JobSet) all(ctx context.Context, verb string, with Bulk, act func(*bulk, []*SortedEntry) error) (Counts, error) {
	b := &bulk{Bulk: with, set: s}
	walk := setWalk{set: s, score: math.Inf(1)}
	for {
		page, err := walk.next(ctx)
		if err != nil || len(page) == 0 {
			return b.counts, s.wrap(verb, errors.Join(err, b.panics))
		}
		if page, err = b.choose(page); err == nil {
			err = b.act(ctx, page, act)
		}
		if err != nil {
			return b.counts, s.wrap(verb, errors.Join(err, b.panics))
		}
	}
}

// act acts on entries, on each that is cut by itself.
func (b *bulk) act(ctx context.Context, page []*SortedEntry, act func(*bulk, []*SortedEntry) error) error {
	for _, group := range alone(page) {
		all, err := wholes(ctx, group)
		switch {
		case err != nil:
			return err
		case all == nil:
			b.counts.Gone++
			continue
		}
		if err := act(b, all); err != nil {
			return err
		}
		if all[0].gone.Load() {
			group[0].gone.Store(true)
		}
	}
	return nil
}

func (b *bulk) choose(page []*SortedEntry) ([]*SortedEntry, error) {
	if b.Where == nil {
		return page, nil
	}
	chosen := make([]*SortedEntry, 0, len(page))
	err := shield("choose entries", func() {
		for _, e := range page {
			if b.Where(e) {
				chosen = append(chosen, e)
			}
		}
	})
	return chosen, err
}

func (b *bulk) count(entries []*SortedEntry, there []bool) {
	for i, e := range entries {
		if !there[i] {
			b.counts.Gone++
			continue
		}
		b.counts.Done++
		if b.Follow == nil {
			continue
		}
		if err := shield("follow an entry", func() { b.Follow(e) }); err != nil && b.panics == nil {
			b.panics = err
		}
	}
}

func (b *bulk) retry(ctx context.Context, page []*SortedEntry) error {
	var lists []list
	var stopped []*SortedEntry
	now := time.Now()
	for _, e := range page {
		p, err := e.prepare(ctx, now, true)
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil && e.Err == nil && !isFault(err):
			return err // the client was set up wrongly
		case err != nil:
			b.counts.leave(1, err)
		case p == nil:
			stopped = append(stopped, e)
		default:
			lists = b.set.list(lists, e, p)
		}
	}
	if len(lists) > 0 {
		if err := b.set.enqueue(ctx, lists); err != nil {
			return err
		}
	}
	var refused error
	for _, l := range lists {
		for _, err := range l.held {
			b.counts.leave(1, err)
		}
		switch {
		case l.fault == nil:
			b.count(l.entries, l.there)
		case strings.Contains(l.fault.Error(), "WRONGTYPE"):
			b.counts.leave(len(l.entries), l.fault)
		default: // no memory, no master: so it will be with the next page
			refused = l.fault
		}
	}
	if refused != nil || len(stopped) == 0 {
		return refused
	}
	there, err := b.set.remove(ctx, stopped)
	for i := range there {
		if there[i] {
			b.counts.Stopped++
		} else {
			b.counts.Gone++
		}
	}
	return err
}

// isFault reports whether the job or the middleware is at fault.
func isFault(err error) bool {
	if _, ok := errchain.As[*client.FieldError](err); ok {
		return true
	}
	_, ok := errchain.As[*client.MiddlewareError](err)
	return ok
}

// remove removes entries from the set, with their locks, and returns which were there.
func (s *JobSet) remove(ctx context.Context, entries []*SortedEntry) ([]bool, error) {
	there, err := s.in().remove(ctx, s.Name, fromSet, records(entries))
	if err != nil {
		return nil, err
	}
	gone(entries)
	return there, nil
}

// IsFault reports whether an error of an operation on an entry is the fault of the job, of the
// client's middleware or of the type of a key, or another job holds its lock, so that other entries may fare better.
func IsFault(err error) bool {
	return isFault(err) || errchain.Has[*client.DuplicateError](err) || strings.Contains(err.Error(), "WRONGTYPE") || errchain.Has[*troupe.PayloadError](err)
}
