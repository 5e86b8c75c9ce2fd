package fleet

import (
	"context"
	"time"

	"github.com/troupehq/troupe/inspect"
)

// Periodic is a periodic job as people see it: what is secret in its arguments and texts is masked.
type Periodic struct {
	*inspect.PeriodicJob
	State  string                 `json:"state"`            // enabled, disabled or stuck
	Pushes []inspect.PeriodicPush `json:"pushes,omitempty"` // the last ten, where one is asked for
}

// PeriodicJobs are all of them, by name.
func (f *Fleet) PeriodicJobs(ctx context.Context) ([]Periodic, error) {
	jobs, err := f.Inspector.PeriodicJobs(ctx)
	all := make([]Periodic, 0, len(jobs))
	for _, j := range jobs {
		all = append(all, f.periodic(j))
	}
	return all, err
}

// PeriodicJob is the one of a name with its pushes, or inspect.ErrNotFound. Of several with it namespace
// chooses.
func (f *Fleet) PeriodicJob(ctx context.Context, name, namespace string) (p Periodic, err error) {
	j, err := f.Inspector.PeriodicJob(ctx, name, namespace)
	if err != nil {
		return p, err
	}
	p = f.periodic(j)
	p.Pushes, err = j.Pushes(ctx)
	return p, err
}

func (f *Fleet) periodic(j *inspect.PeriodicJob) Periodic {
	p := Periodic{PeriodicJob: j, State: "enabled"}
	switch {
	case j.Disabled:
		p.State, j.Next = "disabled", time.Time{} // its ticks push nothing
	case j.Stuck:
		p.State = "stuck"
	}
	j.Args, j.Cron, j.Description, j.Why = f.Mask.Args(j.Args, j.Class), f.Mask.Text(j.Cron), f.Mask.Text(j.Description), f.Mask.Text(j.Why)
	return p
}
