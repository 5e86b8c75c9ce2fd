package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/words"
)

// Batch is a batch of jobs as commands and pages show it.
type Batch struct {
	*inspect.Batch `json:"-"`

	ID      string    `json:"batch"`
	Name    string    `json:"name"`
	State   string    `json:"state"`            // open, running, complete, succeeded or cancelled
	Stuck   string    `json:"stuck,omitempty"`  // why it does not end, as far as that was looked for
	Total   int64     `json:"total"`            // jobs
	Pending int64     `json:"pending"`          // of them are not done
	Failed  int64     `json:"failed"`           // of those have failed: they are retried, or dead
	Made    time.Time `json:"made,omitzero"`    // when it was made
	Last    time.Time `json:"counted,omitzero"` // when something was pushed into it or counted last
	Parent  string    `json:"parent,omitempty"` // the batch that it is a job of

	Callbacks []BatchCallback `json:"callbacks,omitempty"`
	Jobs      *BatchJobs      `json:"jobs,omitempty"`     // where those are that are not done
	Children  []Batch         `json:"children,omitempty"` // the batches that are jobs of it
}

// BatchCallback is what a batch pushes once.
type BatchCallback struct {
	Event   string    `json:"event"` // complete, success or death
	Class   string    `json:"class"`
	Queue   string    `json:"queue"`
	JID     string    `json:"jid"`
	Pushed  time.Time `json:"pushed,omitzero"`
	Refused bool      `json:"refused,omitempty"` // by its queue
}

// BatchJobs tells where the jobs of a batch are that are not done.
type BatchJobs struct {
	Places    []BatchPlace `json:"places"`             // the one with most of them first
	Batches   int64        `json:"batches"`            // that have not ended
	Missing   int64        `json:"missing"`            // they are nowhere
	MissingAt []uint32     `json:"missing_at"`         // their numbers in the batch, the first 100
	Dead      []string     `json:"dead"`               // jids, the last 100
	TooLong   int64        `json:"too_long,omitempty"` // jobs of Redis that are too long to tell whose they are
}

// BatchPlace is a place with jobs of a batch.
type BatchPlace struct {
	Place string `json:"place"` // queue:NAME, scheduled, retry, held, in progress, dead
	Jobs  int64  `json:"jobs"`
}

// MostInBatches is how many jobs commands look at to find those of batches.
const MostInBatches = 2_000_000

// BatchOf is a batch whose jobs were not looked for.
func (f *Fleet) BatchOf(b *inspect.Batch) Batch {
	row := Batch{
		Batch: b, ID: b.ID, Name: f.Mask.Text(b.Name), State: b.State(), Total: b.Total, Pending: b.Pending, Failed: max(0, b.Pending-b.Unrun),
		Made: b.Made.UTC(), Last: b.Last.UTC(), Parent: b.Parent,
	}
	if event := b.Refused(); event != "" {
		row.Stuck = "the queue of its callback " + event + " refuses it"
	}
	if b.Pending == 0 && b.State() != inspect.BatchOpen || b.Ended() {
		row.Failed = 0
	}
	return row
}

// Batches are the batches, the newest first; cut tells that there are more.
func (f *Fleet) Batches(ctx context.Context) (all []Batch, cut bool, err error) {
	found, cut, err := f.Inspector.Batches(ctx)
	for _, b := range found {
		all = append(all, f.BatchOf(b))
	}
	return all, cut, err
}

// Stuck are those of the batches that do not end by themselves: they wait for jobs that are nowhere, at two looks, or a queue refuses a callback. If
// Redis has more than most jobs the error is inspect.ErrTooManyJobs.
func (f *Fleet) Stuck(ctx context.Context, most int64, batches []Batch) (stuck []Batch, err error) {
	left := slices.Clone(batches)
	for range 2 {
		if err := f.FindJobs(ctx, most, left); err != nil {
			return nil, err
		}
		left = slices.DeleteFunc(left, func(b Batch) bool { return b.Stuck == "" })
	}
	return left, nil
}

// FindJobs looks where the jobs of batches are, and tells which are stuck.
func (f *Fleet) FindJobs(ctx context.Context, most int64, batches []Batch) error {
	var all []*inspect.Batch
	for _, b := range batches {
		all = append(all, b.Batch)
	}
	found, err := f.Inspector.FindBatchJobs(ctx, most, all...)
	for n := range batches {
		b := &batches[n]
		jobs := found[b.ID]
		if jobs == nil {
			continue
		}
		b.Jobs = &BatchJobs{Places: []BatchPlace{}, Batches: jobs.Batches, Missing: jobs.Missing, MissingAt: append([]uint32{}, jobs.MissingAt...), Dead: []string{}, TooLong: jobs.TooLong}
		for place, n := range jobs.Places {
			b.Jobs.Places = append(b.Jobs.Places, BatchPlace{place, n})
		}
		slices.SortFunc(b.Jobs.Places, func(a, b BatchPlace) int { return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Place, b.Place)) })
		for _, e := range jobs.Dead {
			b.Jobs.Dead = append(b.Jobs.Dead, e.JID)
		}
		if event := b.Refused(); event == "" {
			b.Stuck = ""
			if jobs.Missing > 0 {
				b.Stuck = words.Plural(jobs.Missing, "job") + map[bool]string{true: " is nowhere", false: " are nowhere"}[jobs.Missing == 1]
			}
		}
	}
	return err
}

// OneBatch is a batch with its callbacks and the batches within it; more tells that there are more of these. Where its jobs are is told, unless
// there is a reason why.
func (f *Fleet) OneBatch(ctx context.Context, id string, most int64) (b Batch, more bool, why, err error) {
	one, err := f.Inspector.Batch(ctx, id)
	if err != nil {
		return Batch{}, false, nil, err
	}
	b = f.BatchOf(one)
	for _, c := range one.Callbacks {
		b.Callbacks = append(b.Callbacks, BatchCallback{c.Event, c.Class, c.Queue, c.JID, c.At.UTC(), c.Refused})
	}
	children, more, err := one.Children(ctx)
	for _, c := range children {
		b.Children = append(b.Children, f.BatchOf(c))
	}
	if err == nil {
		rows := []Batch{b}
		why = f.FindJobs(ctx, most, rows)
		b = rows[0]
	}
	return b, more, why, err
}
