package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// RefusedError says why a process does not do what it was asked for.
type RefusedError struct{ Process, Why string }

func (e *RefusedError) Error() string { return e.Process + ": " + e.Why }

// Cancel cancels a job that runs anywhere in the fleet and returns the process. In
// processes of troupe its context ends; an iterable job of Ruby ends at its next look, some
// seconds later; other jobs of Ruby cannot be cancelled, which is a *RefusedError. If it does
// not run the error is inspect.ErrNotFound, and control.ErrNoReply if a process did not say in time.
func (f *Fleet) Cancel(ctx context.Context, jid string) (process string, err error) {
	all, err := f.Processes(ctx)
	if err != nil {
		return "", err
	}
	iterable, err := f.Redis.Exists(ctx, keys.Iteration(jid)).Result()
	if err != nil {
		return "", err
	}
	if iterable > 0 {
		if _, err := job.CancelIteration(ctx, f.Redis, jid, time.Now()); err != nil {
			return "", err
		}
	}
	unsaid := control.Send(ctx, f.Redis, Ours(all), control.Request{Do: control.Cancel, JID: jid}, func(r control.Reply) bool {
		if r.Result == control.Done {
			process = r.Process
		}
		return process == ""
	})
	if process != "" || unsaid != nil && !errors.Is(unsaid, control.ErrNoReply) {
		return process, unsaid
	}
	works, err := f.Inspector.Works(context.WithoutCancel(ctx))
	if err != nil {
		return "", err
	}
	for _, w := range works {
		switch {
		case w.Job.JID != jid:
		case iterable > 0:
			return w.Process, nil
		case unsaid == nil:
			return "", &RefusedError{w.Process, fmt.Sprintf("the job %s is no iterable one, and this is a Ruby process: it cannot be cancelled there", jid)}
		}
	}
	if unsaid != nil {
		return "", unsaid
	}
	return "", fmt.Errorf("no process runs the job %s: %w", jid, inspect.ErrNotFound)
}
