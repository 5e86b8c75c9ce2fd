package bulk

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// MostRunning is how many tasks run at a time, MostTasks how many are remembered.
	MostRunning = 4
	MostTasks   = 50
)

// ErrBusy says that MostRunning tasks run already.
var ErrBusy = errors.New("too many tasks run already")

// Progress is what is known of a task.
type Progress struct {
	ID          string    `json:"id"`
	State       string    `json:"state"` // running, done, stopped (cancelled), danger (failed)
	Action      string    `json:"action"`
	Past        string    `json:"-"`
	Set         string    `json:"set"`    // or queue:NAME
	Filter      string    `json:"filter"` // in words, for all who see the task
	User        string    `json:"user"`
	Total       int       `json:"total"` // entries, as previewed
	Counts      Counts    `json:"counts"`
	Began       time.Time `json:"began"`
	Ended       time.Time `json:"ended,omitzero"`
	CancelledBy string    `json:"cancelled_by,omitempty"`
	Fault       string    `json:"fault,omitempty"` // that has ended it
}

// Met is how many entries it has come to; what it had not come to at its end is left, and is not among them.
func (s Progress) Met() int {
	if s.State == "stopped" || s.State == "danger" {
		return s.Counts.Sum() - s.Counts.Left
	}
	return s.Counts.Sum()
}

// Percent is the share of the entries that are done.
func (s Progress) Percent() int { return min(100, 100*s.Met()/max(1, s.Total)) }

// Word is the state for people.
func (s Progress) Word() string {
	switch s.State {
	case "stopped":
		return "cancelled"
	case "danger":
		return "failed"
	}
	return s.State
}

// Tell says how a task has ended.
func (s Progress) Tell() string {
	o := Outcome{Counts: s.Counts}
	text := "Task " + s.ID + " " + s.Word() + ": " + o.Tell(s.Past)
	if s.CancelledBy != "" {
		text += " Cancelled by " + s.CancelledBy + "."
	}
	return text
}

// Tasks are those of a process: they run until they end, or a context does. They are safe for
// concurrent use.
type Tasks struct {
	ctx   context.Context //nolint:containedctx // of all of them
	fault func(error) string
	group sync.WaitGroup

	mu   sync.Mutex
	list []*underway // the newest first
}

type underway struct {
	Progress
	cancel context.CancelFunc
}

// NewTasks returns none yet. Fault says for people what has ended a task.
func NewTasks(ctx context.Context, fault func(error) string) *Tasks {
	return &Tasks{ctx: ctx, fault: fault}
}

// Wait waits for the end of all, after that of the context.
func (ts *Tasks) Wait() {
	ts.mu.Lock()   // after that nothing begins
	ts.mu.Unlock() //nolint:staticcheck // it is not for what is between
	ts.group.Wait()
}

// Start begins a task and calls ended after its end. Of s, ID, Set, Filter and User are set.
func (ts *Tasks) Start(t Task, s Progress, ended func(Progress, error)) error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	running := 0
	for _, one := range ts.list {
		if one.Ended.IsZero() {
			running++
		}
	}
	if err := ts.ctx.Err(); err != nil {
		return err
	}
	if running >= MostRunning {
		return ErrBusy
	}
	s.State, s.Action, s.Past, s.Total, s.Began = "running", t.Name, t.Past, t.Limit, time.Now()
	ctx, cancel := context.WithCancel(ts.ctx)
	one := &underway{s, cancel}
	ts.list = slices.Insert(ts.list, 0, one)
	if len(ts.list) > MostTasks {
		i := len(ts.list) - 1
		for ts.list[i].Ended.IsZero() { // at most four do
			i--
		}
		ts.list = slices.Delete(ts.list, i, i+1)
	}
	ts.group.Go(func() {
		defer cancel()
		counts, err := t.Run(ctx, func(c Counts) {
			ts.mu.Lock()
			one.Counts = c
			ts.mu.Unlock()
		})
		ts.mu.Lock()
		if err != nil {
			counts.Left += max(0, one.Total-counts.Sum())
		}
		one.Counts, one.Ended, one.State = counts, time.Now(), "done"
		switch {
		case errors.Is(err, context.Canceled):
			one.State, err = "stopped", nil // Tell says it
		case err != nil:
			one.State, one.Fault = "danger", ts.fault(err)
		}
		end := one.Progress
		ts.mu.Unlock()
		ended(end, err)
	})
	return nil
}

// States are those of all tasks, the newest first.
func (ts *Tasks) States() []Progress {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	all := make([]Progress, len(ts.list))
	for i, t := range ts.list {
		all[i] = t.Progress
	}
	return all
}

// Cancel ends a running task before its next entry.
func (ts *Tasks) Cancel(id, by string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.list {
		if t.ID == id && t.Ended.IsZero() {
			t.CancelledBy = by
			t.cancel()
		}
	}
}
