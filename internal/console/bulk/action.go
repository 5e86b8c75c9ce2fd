package bulk

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
)

// Entry is a job of a set or of a queue: one of the two is not nil.
type Entry struct {
	Sorted *inspect.SortedEntry
	Queued *inspect.QueuedJob
}

// Record is the job.
func (e Entry) Record() *inspect.JobRecord {
	if e.Queued != nil {
		return &e.Queued.JobRecord
	}
	return &e.Sorted.JobRecord
}

// Whole are all bytes of the job; false if it is not there any more.
func (e Entry) Whole(ctx context.Context) (raw string, there bool, err error) {
	if e.Queued != nil {
		return e.Queued.Whole(ctx)
	}
	return e.Sorted.Whole(ctx)
}

// When is the time that the job is listed with: of a queue since when it waits.
func (e Entry) When() time.Time {
	if e.Queued == nil {
		return SortedAt(e.Sorted)
	}
	return Since(&e.Queued.JobRecord)
}

// SortedAt is the time that an entry of a set is listed with: of a held job since when it is held.
func SortedAt(e *inspect.SortedEntry) time.Time {
	if e.Held != nil {
		return e.Held.Since
	}
	return e.At
}

// Score is that of an entry of a set; 0 of a job of a queue.
func (e Entry) Score() float64 {
	if e.Sorted == nil {
		return 0
	}
	return e.Sorted.Score
}

// Since is when a job was put into its queue.
func Since(r *inspect.JobRecord) time.Time {
	sum := r.Summary()
	if sum.EnqueuedAt.IsZero() {
		return sum.CreatedAt
	}
	return sum.EnqueuedAt
}

// Action is something that can be done to a job of a set or of a queue.
type Action struct {
	Name, Past string
	Short      string // what it does, for people
	Timed      bool   // it wants Task.At
	Moves      bool   // it wants Task.To
	Act        func(ctx context.Context, e Entry, t *Task) (inspect.Outcome, error)
}

// Actions are all of them.
var Actions = []Action{
	{Name: "retry", Past: "retried", Short: "Put jobs into their queues now", Act: func(ctx context.Context, e Entry, _ *Task) (inspect.Outcome, error) {
		if e.Sorted.Set.Name == "schedule" {
			return e.Sorted.AddToQueue(ctx)
		}
		return e.Sorted.Retry(ctx)
	}},
	{Name: "release", Past: "released", Short: "Let held jobs in though their limits have no room", Act: func(ctx context.Context, e Entry, _ *Task) (inspect.Outcome, error) {
		return e.Sorted.Release(ctx)
	}},
	{Name: "kill", Past: "killed", Short: "Move jobs to the dead set", Act: func(ctx context.Context, e Entry, _ *Task) (inspect.Outcome, error) {
		if e.Queued != nil {
			return e.Queued.Kill(ctx)
		}
		return e.Sorted.Kill(ctx)
	}},
	{Name: "delete", Past: "deleted", Short: "Delete jobs for good", Act: func(ctx context.Context, e Entry, _ *Task) (inspect.Outcome, error) {
		if e.Queued != nil {
			return e.Queued.Delete(ctx)
		}
		return e.Sorted.Delete(ctx)
	}},
	{Name: "reschedule", Past: "rescheduled", Short: "Give jobs another time", Timed: true, Act: func(ctx context.Context, e Entry, t *Task) (inspect.Outcome, error) {
		return e.Sorted.Reschedule(ctx, t.At)
	}},
	{Name: "move", Past: "moved", Short: "Move jobs of a queue to another queue", Moves: true, Act: func(ctx context.Context, e Entry, t *Task) (inspect.Outcome, error) {
		return e.Queued.Move(ctx, t.To)
	}},
}

// CountOut counts jobs of a batch as done that are nowhere: see inspect.Batch.CountOut. It is none for jobs of sets and queues.
var CountOut = Action{Name: "count-out", Past: "counted out"}

// Queued begins the name of a queue in the place of a set, and Held is the place of all jobs that limits hold.
const (
	Queued = "queue:"
	Held   = "held"
)

// Allows reports whether the action makes sense for a set, or for a queue as queue:NAME: what is dead
// stays so, at the time of its death. Commands, the screen and pages ask it, and a task refuses the
// others.
func (a *Action) Allows(place string) bool {
	queued := strings.HasPrefix(place, Queued)
	switch a.Name {
	case "delete":
		return true
	case "kill":
		return place != "dead"
	case "release":
		return place == Held
	}
	if place == Held {
		return false
	}
	switch a.Name {
	case "move":
		return queued
	case "reschedule":
		return !queued && place != "dead"
	}
	return !queued
}

// Allowed are the names of the sets that an action is for.
func (a *Action) Allowed() []string {
	return slices.DeleteFunc(slices.Clone(Sets), func(set string) bool { return !a.Allows(set) })
}

// Refused says why an action is none for a set or a queue; nil if it is one.
func (a *Action) Refused(place string) error {
	switch {
	case a.Allows(place):
		return nil
	case place == Held:
		return errors.New("a job that a limit holds can be released, killed or deleted")
	case a.Name == "release":
		return errors.New("only a job that a limit holds can be released, expected held")
	case strings.HasPrefix(place, Queued):
		return errors.New("a job that waits in a queue can be moved, killed or deleted")
	case a.Moves:
		return errors.New("only a job of a queue can be moved, expected queue:NAME")
	}
	return errors.New("what is dead stays so, at the time of its death: it can be retried or deleted")
}

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
