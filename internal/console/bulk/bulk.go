// Package bulk acts on many entries of a sorted set, one atomic step each, and counts what
// became of them.
package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/scores"
)

// Action is something that can be done to an entry of a set.
type Action struct {
	Name, Past string
	Short      string // what it does, for people
	Timed      bool   // it wants Task.At
	Act        func(ctx context.Context, e *inspect.SortedEntry, at time.Time) (inspect.Outcome, error)
}

// Actions are all of them.
var Actions = []Action{
	{"retry", "retried", "Put jobs into their queues now", false, func(ctx context.Context, e *inspect.SortedEntry, _ time.Time) (inspect.Outcome, error) {
		if e.Set.Name == "schedule" {
			return e.AddToQueue(ctx)
		}
		return e.Retry(ctx)
	}},
	{"kill", "killed", "Move jobs to the dead set", false, func(ctx context.Context, e *inspect.SortedEntry, _ time.Time) (inspect.Outcome, error) {
		return e.Kill(ctx)
	}},
	{"delete", "deleted", "Delete jobs for good", false, func(ctx context.Context, e *inspect.SortedEntry, _ time.Time) (inspect.Outcome, error) {
		return e.Delete(ctx)
	}},
	{"reschedule", "rescheduled", "Give jobs another time", true, func(ctx context.Context, e *inspect.SortedEntry, at time.Time) (inspect.Outcome, error) {
		return e.Reschedule(ctx, at)
	}},
}

// Allows tells whether the action makes sense for a set: what is dead stays so, at the time of its
// death. Commands, the screen and pages ask it, and a task refuses the others.
func (a *Action) Allows(set string) bool {
	return set != "dead" || a.Name != "kill" && a.Name != "reschedule"
}

// Allowed are the names of the sets that an action is for.
func (a *Action) Allowed() []string {
	return slices.DeleteFunc(slices.Clone(Sets), func(set string) bool { return !a.Allows(set) })
}

// ErrNotAllowed says that an action is none for a set.
var ErrNotAllowed = errors.New("what is dead stays so, at the time of its death: it can be retried or deleted")

// ActionOf is the action of a name.
func ActionOf(name string) (Action, bool) {
	i := slices.IndexFunc(Actions, func(a Action) bool { return a.Name == name })
	if i < 0 {
		return Action{}, false
	}
	return Actions[i], true
}

// Sets are the names of the sorted sets, as people call them.
var Sets = []string{"retry", "scheduled", "dead"}

// SetOf is the set of a name; nil for none.
func SetOf(i *inspect.Inspector, name string) *inspect.JobSet {
	return map[string]*inspect.JobSet{"retry": i.RetrySet, "scheduled": i.ScheduledSet, "dead": i.DeadSet}[name]
}

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

// Task is one action on the entries that are chosen: the Entries, those of Keys, of JIDs, else
// those that Filter matches.
type Task struct {
	Action
	Set *inspect.JobSet

	Entries []*inspect.SortedEntry // as somebody has seen them, by their bytes
	Keys    []string               // see inspect.SortedEntry.Key
	JIDs    []string
	Filter  Filter
	At      time.Time // of a timed action
	Rate    int       // entries a second at most; 0 is as fast as it goes
	Limit   int       // entries at most, as a preview counted them; 0 is all
}

// each walks through the entries that are chosen, and tells the names of those that are not there.
func (t *Task) each(ctx context.Context, gone func(), do func(e *inspect.SortedEntry) (more bool, err error)) error {
	if t.Set != nil && !t.Allows(t.Set.Name) {
		return fmt.Errorf("%s of the set %s: %w", t.Name, t.Set.Name, ErrNotAllowed)
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
			if more, err := do(e); err != nil || !more {
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
	case t.Keys != nil:
		return named(t.Keys, t.Set.Lookup)
	case t.JIDs != nil:
		return named(t.JIDs, t.Set.FindJob)
	}
	for e, err := range t.Set.Each(ctx) {
		if err != nil {
			return err
		}
		if !t.Filter.Match(&e.JobRecord, e.At) || t.Timed && e.Score == scores.Of(t.At) { // met again, or as it is to be
			continue
		}
		if more, err := do(e); err != nil || !more {
			return err
		}
	}
	return nil
}

// Preview counts the entries that are chosen, and returns the first few.
func (t *Task) Preview(ctx context.Context, few int) (total int, some []*inspect.SortedEntry, err error) {
	err = t.each(ctx, func() {}, func(e *inspect.SortedEntry) (bool, error) {
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
	began := time.Now()
	err = t.each(ctx, func() { c.Gone++; progress(c) }, func(e *inspect.SortedEntry) (bool, error) {
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
func (t *Task) one(ctx context.Context, e *inspect.SortedEntry, c *Counts) error {
	outcome, err := t.Act(context.WithoutCancel(ctx), e, t.At)
	switch {
	case err != nil && (e.Err != nil || inspect.IsFault(err)):
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
