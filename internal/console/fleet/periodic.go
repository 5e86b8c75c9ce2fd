package fleet

import (
	"context"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/mask"
)

// Periodic is a periodic job as people see it: what is secret in its arguments and texts is masked.
type Periodic struct {
	*inspect.PeriodicJob
	Raw    *inspect.PeriodicJob   `json:"-"`                // as it is, with what is secret
	State  string                 `json:"state"`            // enabled, disabled or stuck
	Ticks  []time.Time            `json:"ticks,omitempty"`  // the next ones, where one is asked for
	Pushes []inspect.PeriodicPush `json:"pushes,omitempty"` // the last ten, likewise
}

// nextTicks is how many ticks are shown of one that is asked for.
const nextTicks = 5

// PeriodicJobs are all of them, by name.
func (f *Fleet) PeriodicJobs(ctx context.Context) ([]Periodic, error) {
	jobs, err := f.Inspector.PeriodicJobs(ctx)
	all := make([]Periodic, 0, len(jobs))
	for _, j := range jobs {
		all = append(all, PeriodicOf(j, f.Mask))
	}
	return all, err
}

// PeriodicJob returns the periodic job of a name with its pushes. The error is inspect.ErrNotFound if there
// is none. If several have the name, namespace chooses one.
func (f *Fleet) PeriodicJob(ctx context.Context, name, namespace string) (p Periodic, err error) {
	j, err := f.Inspector.PeriodicJob(ctx, name, namespace)
	if err != nil {
		return p, err
	}
	p = PeriodicOf(j, f.Mask)
	if !j.Disabled {
		p.Ticks = j.Ticks(nextTicks)
	}
	p.Pushes, err = j.Pushes(ctx)
	return p, err
}

// PeriodicOf is j as m masks it.
func PeriodicOf(j *inspect.PeriodicJob, m *mask.Masker) Periodic {
	shown := *j
	p := Periodic{PeriodicJob: &shown, Raw: j, State: "enabled"}
	switch {
	case j.Disabled:
		p.State, shown.Next = "disabled", time.Time{} // its ticks push nothing
	case j.Stuck:
		p.State = "stuck"
	}
	shown.Args, shown.Cron, shown.Description, shown.Why = m.Args(j.Args, j.Class), m.Text(j.Cron), m.Text(j.Description), m.Text(j.Why)
	return p
}
