package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/iterstate"
	"github.com/troupehq/troupe/internal/keys"
)

// refusedError says why a process does not do what it was asked for.
type refusedError struct{ process, why string }

func (e *refusedError) Error() string { return e.process + ": " + e.why }

// cancelJob cancels a job that runs anywhere in the fleet and returns the process. In
// processes of troupe its context ends; an iterable job of Ruby ends at its next look, some
// seconds later; other jobs of Ruby cannot be cancelled, which is a *refusedError. If it does
// not run the error is inspect.ErrNotFound, and control.ErrNoReply if a process did not say in time.
func cancelJob(ctx context.Context, rdb redis.UniversalClient, jid string) (process string, err error) {
	i := inspect.New(rdb)
	all, err := i.Processes(ctx)
	if err != nil {
		return "", err
	}
	identities := make([]string, len(all))
	for n, p := range all {
		identities[n] = p.Identity
	}
	ours, err := control.Troupes(ctx, rdb, identities)
	if err != nil {
		return "", err
	}
	iterable, err := rdb.Exists(ctx, keys.Iteration(jid)).Result()
	if err != nil {
		return "", err
	}
	if iterable > 0 {
		if _, err := iterstate.Cancel(ctx, rdb, jid, time.Now()); err != nil {
			return "", err
		}
	}
	unsaid := control.Send(ctx, rdb, ours, control.Request{Do: control.Cancel, JID: jid}, func(r control.Reply) bool {
		if r.Result == control.Done {
			process = r.Process
		}
		return process == ""
	})
	if process != "" || unsaid != nil && !errors.Is(unsaid, control.ErrNoReply) {
		return process, unsaid
	}
	works, err := i.Works(context.WithoutCancel(ctx))
	if err != nil {
		return "", err
	}
	for _, w := range works {
		switch {
		case w.Job.JID != jid:
		case iterable > 0:
			return w.Process, nil
		case unsaid == nil:
			return "", &refusedError{w.Process, fmt.Sprintf("the job %s is no iterable one, and this is a Ruby process: it cannot be cancelled there", jid)}
		}
	}
	if unsaid != nil {
		return "", unsaid
	}
	return "", fmt.Errorf("no process runs the job %s: %w", jid, inspect.ErrNotFound)
}
