package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/periodic"
)

// PeriodicJob is a job that is pushed by the clock, as Redis has it: of troupe or of Ruby's
// sidekiq-cron.
type PeriodicJob struct {
	Name        string          `json:"name"`
	Namespace   string          `json:"namespace"` // "" with sidekiq-cron before its version 2
	Cron        string          `json:"cron"`
	Class       string          `json:"class"`
	Queue       string          `json:"queue"`
	Args        json.RawMessage `json:"args"`
	Description string          `json:"description"`
	Disabled    bool            `json:"disabled"`
	Missed      troupe.Missed   `json:"missed"` // what becomes of missed ticks
	Once        bool            `json:"once"`
	Overlap     troupe.Overlap  `json:"overlap"` // what becomes of ticks while the job of an earlier one is there; "" pushes

	// Tag is that of the daemons whose configuration has it; "" if it was made at run time or by Ruby.
	Tag string `json:"tag"`

	Next   time.Time     `json:"next,omitzero"`   // tick; zero if none comes
	Marked time.Time     `json:"marked,omitzero"` // the last tick that is done with
	Pushed time.Time     `json:"pushed,omitzero"` // the last push, by whomever
	Last   *PeriodicTick `json:"last,omitempty"`  // the last tick that troupe has dealt with

	// Why says in a sentence why its last tick pushed no job, or why its next will not; "" if all is
	// well.
	Why string `json:"why"`
	// Stuck says that it is enabled and pushes nothing: it cannot be carried out, or nobody deals with
	// its ticks.
	Stuck bool `json:"stuck"`

	e *periodic.Entry
	i *Inspector
}

// PeriodicTick is what became of a tick.
type PeriodicTick struct {
	At     time.Time `json:"at"`
	What   string    `json:"what"` // as in event.PeriodicTicked; or "written" when the entry was written or enabled after it
	JID    string    `json:"jid"`
	Late   float64   `json:"late_s"`
	Missed int       `json:"missed"` // ticks before it for which no job was pushed
}

// PeriodicPush is a job that was pushed.
type PeriodicPush struct {
	JID string    `json:"jid"`
	At  time.Time `json:"at"`
}

func (i *Inspector) periodic() *periodic.Store { return &periodic.Store{Redis: i.rdb} }

// PeriodicJobs are all of them, by their names.
func (i *Inspector) PeriodicJobs(ctx context.Context) ([]*PeriodicJob, error) {
	all, err := i.periodic().All(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*PeriodicJob, 0, len(all))
	for _, e := range all {
		out = append(out, i.periodicJob(e, time.Now()))
	}
	return out, nil
}

// PeriodicJob is the one of a name, or ErrNotFound. Of several with it namespace chooses, "-" the one
// that has none.
func (i *Inspector) PeriodicJob(ctx context.Context, name, namespace string) (*PeriodicJob, error) {
	e, err := i.periodic().Find(ctx, name, namespace)
	if errors.Is(err, periodic.ErrNotFound) {
		return nil, fmt.Errorf("periodic job %q: %w", name, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return i.periodicJob(e, time.Now()), nil
}

// SavePeriodic writes periodic jobs at run time, in place of those with the same names: the fleet
// carries them out from then on, and no daemon takes them away. A job that was disabled stays so.
func (i *Inspector) SavePeriodic(ctx context.Context, jobs ...troupe.Periodic) error {
	return i.periodic().Save(ctx, jobs...)
}

func (i *Inspector) periodicJob(e *periodic.Entry, now time.Time) *PeriodicJob {
	j := &PeriodicJob{
		Name: e.Name, Namespace: e.Namespace, Cron: e.Cron, Class: e.Class, Queue: e.Queue, Args: e.Args, Description: e.Description,
		Disabled: e.Disabled, Missed: e.Missed, Once: e.Once, Overlap: e.Overlap, Tag: e.Tag,
		Next: e.Next, Marked: e.Mark, Pushed: e.Pushed, Why: e.Why(now), Stuck: e.Stuck(now), e: e, i: i,
	}
	if t := e.Last; t != nil {
		j.Last = &PeriodicTick{At: t.At, What: t.What, JID: t.JID, Late: t.Late.Seconds(), Missed: t.Missed}
	}
	return j
}

// Ticks are its next ones, n at most.
func (j *PeriodicJob) Ticks(n int) []time.Time { return j.e.Ticks(time.Now(), n) }

// Enable has its ticks push from now on; those that have passed do not come again.
func (j *PeriodicJob) Enable(ctx context.Context) error { return j.i.periodic().Enable(ctx, j.e, true) }

// Disable has its ticks push nothing.
func (j *PeriodicJob) Disable(ctx context.Context) error {
	return j.i.periodic().Enable(ctx, j.e, false)
}

// Delete deletes it; jobs that it has pushed stay. One with a Tag is there again when a daemon with
// it starts: take it out of the configuration, or disable it.
func (j *PeriodicJob) Delete(ctx context.Context) error { return j.i.periodic().Remove(ctx, j.e) }

// Push pushes a job of it now, beside its ticks; jid is "" if middleware of Inspector.Client stopped
// it. On an error the job may have arrived.
func (j *PeriodicJob) Push(ctx context.Context) (jid string, err error) {
	return j.i.periodic().Push(ctx, j.i.Client, j.e, troupe.TimestampsFloat)
}

// Pushes are the last ten jobs that it has pushed, the newest first.
func (j *PeriodicJob) Pushes(ctx context.Context) ([]PeriodicPush, error) {
	list, err := j.i.periodic().Pushes(ctx, j.e)
	out := make([]PeriodicPush, 0, len(list))
	for _, p := range list {
		out = append(out, PeriodicPush(p))
	}
	return out, err
}
