// Package bulk acts on many jobs of a set or of a queue, one atomic step each, and counts what
// became of them.
package bulk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/scores"
)

// Counts is what a task did.
type Counts struct {
	Done    int    `json:"done"`
	Gone    int    `json:"gone"`    // taken by somebody else before
	Stopped int    `json:"stopped"` // by client middleware on the way to the queue
	Left    int    `json:"left"`    // still there
	Fault   string `json:"fault,omitempty"`
}

// Sum is how many entries were met.
func (c Counts) Sum() int { return c.Done + c.Gone + c.Stopped + c.Left }

// Task is one action on jobs of a set or of a queue that are chosen: the Entries, those of Keys, of
// JIDs, else those that Filter matches; or CountOut of a batch.
type Task struct {
	Action
	Set   *inspect.JobSet    // also of what one rule of a limit holds, or
	Queue *inspect.Queue     // or
	Held  *inspect.Inspector // for all jobs that limits hold

	Entries []Entry  // as somebody has seen them, by their bytes
	Keys    []string // of a set; see inspect.SortedEntry.Key
	JIDs    []string
	Filter  Filter
	At      time.Time      // of a timed action
	To      *inspect.Queue // of one that moves
	Rate    int            // entries a second at most; 0 is as fast as it goes
	Limit   int            // entries at most, as a preview counted them; 0 is all

	Batch *inspect.Batch // of CountOut
	Apart time.Duration  // between the two looks for its jobs
}

// Place is the name of the set, or of the queue as queue:NAME.
func (t *Task) Place() string {
	switch {
	case t.Queue != nil:
		return Queued + t.Queue.Name
	case t.Held != nil, t.Set != nil && t.Set.Held():
		return Held
	case t.Set != nil:
		return t.Set.Name
	}
	return ""
}

// Check says why the task cannot be; nil if it can.
func (t *Task) Check() error {
	place := t.Place()
	if place == "" {
		return nil
	}
	if err := t.Refused(place); err != nil {
		return fmt.Errorf("%s of %s: %w", t.Name, place, err)
	}
	switch {
	case !t.Moves:
		return nil
	case t.To == nil:
		return errors.New("got no queue to move to")
	case t.To.Name == t.Queue.Name:
		return fmt.Errorf("got the queue %q to move to, expected another one", t.To.Name)
	}
	return t.To.Takes()
}

// each walks through the entries that are chosen, and tells the names of those that are not there.
func (t *Task) each(ctx context.Context, gone func(), do func(e Entry) (more bool, err error)) error {
	if err := t.Check(); err != nil {
		return err
	}
	named := func(names []string, find func(context.Context, string) (*inspect.SortedEntry, error)) error {
		for _, name := range names {
			e, err := find(ctx, name)
			switch {
			case errors.Is(err, inspect.ErrNotFound):
				gone()
				continue
			case err != nil:
				return err
			}
			if more, err := do(Entry{Sorted: e}); err != nil || !more {
				return err
			}
		}
		return nil
	}
	switch {
	case t.Entries != nil:
		for _, e := range t.Entries {
			if more, err := do(e); err != nil || !more {
				return err
			}
		}
		return nil
	case t.Queue != nil:
		return t.eachQueued(ctx, gone, do)
	case t.Keys != nil:
		return named(t.Keys, t.Set.Lookup)
	case t.JIDs != nil && t.Held != nil:
		return named(t.JIDs, t.Held.FindHeld)
	case t.JIDs != nil:
		return named(t.JIDs, t.Set.FindJob)
	}
	var entries iter.Seq2[*inspect.SortedEntry, error]
	when := func(e *inspect.SortedEntry) time.Time { return e.At }
	switch {
	case t.Held != nil:
		entries, when = t.Held.HeldJobs(ctx), SortedAt
	case t.Set.Held(): // the next one first
		entries = t.Set.From(ctx, math.Inf(-1), nil, true)
	default:
		entries = t.Set.Each(ctx)
	}
	for e, err := range entries {
		if err != nil {
			return err
		}
		if !t.Filter.Match(&e.JobRecord, when(e)) || t.Timed && e.Score == scores.Of(t.At) { // met again, or as it is to be
			continue
		}
		if more, err := do(Entry{Sorted: e}); err != nil || !more {
			return err
		}
	}
	return nil
}

// eachQueued is each for a queue, from the job on that is taken next.
func (t *Task) eachQueued(ctx context.Context, gone func(), do func(e Entry) (more bool, err error)) error {
	wanted := map[string]bool{} // by jid, until it is met
	for _, jid := range t.JIDs {
		wanted[jid] = true
	}
	for j, err := range t.Queue.OldestFirst(ctx) {
		if err != nil {
			return err
		}
		e := Entry{Queued: j}
		switch {
		case t.JIDs != nil && !wanted[j.JID], t.JIDs == nil && !t.Filter.Match(&j.JobRecord, e.When()):
			continue
		}
		delete(wanted, j.JID)
		if more, err := do(e); err != nil || !more {
			return err
		}
		if t.JIDs != nil && len(wanted) == 0 {
			break
		}
	}
	for range wanted {
		gone()
	}
	return nil
}

// Preview counts the entries that are chosen, and returns the first few.
func (t *Task) Preview(ctx context.Context, few int) (total int, some []Entry, err error) {
	err = t.each(ctx, func() {}, func(e Entry) (bool, error) {
		if total++; len(some) < few {
			some = append(some, e)
		}
		return true, nil
	})
	return total, some, err
}

// Run acts on the entries that are chosen and calls progress after each. The end of ctx ends it
// between two entries. The counts hold after an error, too.
func (t *Task) Run(ctx context.Context, progress func(Counts)) (c Counts, err error) {
	if t.Batch != nil {
		n, err := t.Batch.CountOut(ctx, t.Apart)
		c.Done = int(n)
		if err == nil {
			c.Gone = max(0, t.Limit-c.Done)
		}
		return c, err
	}
	began := time.Now()
	err = t.each(ctx, func() { c.Gone++; progress(c) }, func(e Entry) (bool, error) {
		if err := t.one(ctx, e, &c); err != nil {
			return false, err
		}
		progress(c)
		err := slow(ctx, began, c.Sum(), t.Rate)
		return t.Limit == 0 || c.Sum() < t.Limit, err
	})
	return c, err
}

// slow waits until the next entry after n may be acted on, or ctx ends.
func slow(ctx context.Context, began time.Time, n, rate int) error {
	if rate > 0 {
		pause := time.NewTimer(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(rate))))
		defer pause.Stop()
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
	return ctx.Err()
}

// leave counts an entry that is at fault.
func (c *Counts) leave(err error) {
	c.Left++
	if c.Fault == "" {
		c.Fault = err.Error()
	}
}

// one acts on one entry. What is wrong with the entry leaves it; other errors end the task.
func (t *Task) one(ctx context.Context, e Entry, c *Counts) error {
	outcome, err := t.Act(context.WithoutCancel(ctx), e, t)
	switch {
	case err != nil && (e.Record().Err != nil || inspect.IsFault(err)):
		c.leave(err)
	case err != nil:
		return err
	case outcome == inspect.Done:
		c.Done++
	case outcome == inspect.Stopped:
		c.Stopped++
	default:
		c.Gone++
	}
	return nil
}
