package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/words"
)

// ErrNoReply is the error of Cancel and CancelRunning when a process has not answered in time: whether
// the job is cancelled is not known.
var ErrNoReply = control.ErrNoReply

// RefusedError says why a process does not cancel a job that it has.
type RefusedError struct {
	Process string // its identity
	Why     string
}

func (e *RefusedError) Error() string { return e.Process + ": " + e.Why }

// Place is where Cancel has found a job.
type Place string

// The places of a job that Cancel ends.
const (
	Queued    Place = "queued"    // it waited in its queue
	Scheduled Place = "scheduled" // it was to run later
	Retrying  Place = "retrying"  // it had failed and was to run again
	Running   Place = "running"
)

// Cancelled is what Cancel has found and done.
type Cancelled struct {
	Place   Place
	Queue   string // of a job that was Queued
	Process string // identity, of a job that was Running

	// Deleted: the job is gone and will not run. Else it was asked to end: one that runs by the end of
	// its context, an iterable one, wherever it is, by its state.
	Deleted bool
}

// String says it in words: "it waited in the queue default and is deleted".
func (c Cancelled) String() string {
	is := "is asked to end: it is an iterable job that has begun, and ends when it runs next"
	if c.Deleted {
		is = "is deleted"
	}
	switch c.Place {
	case Queued:
		return "it waited in the queue " + words.Text(c.Queue) + " and " + is
	case Scheduled:
		return "it was scheduled and " + is
	case Retrying:
		return "it was to be retried and " + is
	default: // Running
	}
	return "it runs in " + words.Text(c.Process) + " and is asked to end"
}

const (
	// replyTime is how long processes have to answer if the context has no deadline.
	replyTime = 5 * time.Second
	// searches is how often Cancel looks everywhere: a job may move on meanwhile.
	searches = 3
)

// Cancel ends a job wherever it is. One that waits, is scheduled or is to be retried is deleted; one
// that runs is cancelled as CancelRunning does it, and what becomes of it is its handler's affair. An
// iterable job that has begun is asked to end by its state, stays where it is and ends, after
// OnCancel, when it runs next. It looks into both sets, all queues and all processes.
//
// A job that is nowhere, or dead, is ErrNotFound; one that a process has and does not give up a
// *RefusedError; ErrNoReply means that a process did not answer, within 5 s if ctx has no deadline.
func (i *Inspector) Cancel(ctx context.Context, jid string) (Cancelled, error) {
	for try := 1; ; try++ {
		c, err := i.cancel(ctx, jid)
		if !errors.Is(err, ErrNotFound) || try == searches {
			return c, err
		}
	}
}

// cancel looks at each place once, in the order in which jobs move.
func (i *Inspector) cancel(ctx context.Context, jid string) (Cancelled, error) {
	asked, err := i.askIteration(ctx, jid)
	if err != nil {
		return Cancelled{}, fmt.Errorf("cancel %s: %w", words.Text(jid), err)
	}
	for _, in := range []struct {
		place Place
		set   *JobSet
	}{{Scheduled, i.ScheduledSet}, {Retrying, i.RetrySet}} {
		entry, err := in.set.FindJob(ctx, jid)
		if done, err := taken(asked, err, func() (Outcome, error) { return entry.Delete(ctx) }); done || err != nil {
			return Cancelled{Place: in.place, Deleted: !asked}, err
		}
	}
	queues, err := i.Queues(ctx)
	if err != nil {
		return Cancelled{}, err
	}
	for _, q := range queues {
		for one, err := range i.Queue(q.Name).OldestFirst(ctx) {
			if err == nil && one.JID != jid {
				continue
			}
			if done, err := taken(asked, err, func() (Outcome, error) { return one.Delete(ctx) }); done || err != nil {
				return Cancelled{Place: Queued, Queue: q.Name, Deleted: !asked}, err
			}
		}
	}
	process, err := i.CancelRunning(ctx, jid)
	if !errors.Is(err, ErrNotFound) {
		return Cancelled{Place: Running, Process: process}, err
	}
	for claim, failed := range i.Claims(ctx) {
		if failed != nil {
			return Cancelled{}, failed
		}
		for one, failed := range claim.Each(ctx) {
			if failed == nil && one.JID == jid {
				failed = &RefusedError{claim.Fetcher.Process, "it has fetched the job " + words.Text(jid) + " and does not run it: ask again when it does"}
			}
			if failed != nil {
				return Cancelled{}, failed
			}
		}
	}
	if _, dead := i.DeadSet.FindJob(ctx, jid); dead == nil {
		err = fmt.Errorf("the job %s is dead, and does not run again by itself: %w", words.Text(jid), ErrNotFound)
	}
	return Cancelled{}, err
}

// taken deletes what was found, unless its state was asked to end.
func taken(asked bool, found error, remove func() (Outcome, error)) (bool, error) {
	switch {
	case errors.Is(found, ErrNotFound):
		return false, nil
	case found != nil:
		return false, found
	case asked:
		return true, nil
	}
	outcome, err := remove()
	return outcome == Done, err
}

// askIteration asks an iterable job that has begun to end; false if there is no such job.
func (i *Inspector) askIteration(ctx context.Context, jid string) (bool, error) {
	n, err := i.db().Exists(ctx, keys.Iteration(jid)).Result()
	if err == nil && n > 0 {
		_, err = job.CancelIteration(ctx, i.db(), jid, time.Now())
	}
	return n > 0, err
}

// CancelRunning cancels a job that runs anywhere in the fleet and returns the process. In processes
// of troupe its context ends, with the cause troupe.ErrCancelled; an iterable job of Ruby ends at its
// next look, some seconds later; other jobs of Ruby cannot be cancelled, which is a *RefusedError. If
// it does not run the error is ErrNotFound; ErrNoReply means that a process did not answer, within 5 s
// if ctx has no deadline.
func (i *Inspector) CancelRunning(ctx context.Context, jid string) (process string, err error) {
	iterable, err := i.askIteration(ctx, jid)
	if err != nil {
		return "", fmt.Errorf("cancel %s: %w", words.Text(jid), err)
	}
	ours, err := i.ours(ctx)
	if err != nil {
		return "", err
	}
	call := ctx
	if _, bounded := ctx.Deadline(); !bounded {
		var stop context.CancelFunc
		call, stop = context.WithTimeout(ctx, replyTime)
		defer stop()
	}
	unsaid := control.Send(call, i.db(), ours, control.Request{Do: control.Cancel, JID: jid}, func(r control.Reply) bool {
		if r.Result == control.Done {
			process = r.Process
		}
		return process == ""
	})
	if process != "" || unsaid != nil && !errors.Is(unsaid, ErrNoReply) {
		return process, unsaid
	}
	works, err := i.Works(context.WithoutCancel(ctx))
	if err != nil {
		return "", err
	}
	for _, w := range works {
		switch {
		case w.Job.JID != jid:
		case iterable:
			return w.Process, nil
		case unsaid == nil:
			return "", &RefusedError{w.Process, fmt.Sprintf("the job %s is no iterable one, and this is a Ruby process: it cannot be cancelled there", words.Text(jid))}
		}
	}
	if unsaid != nil {
		return "", unsaid
	}
	return "", fmt.Errorf("no process runs the job %s: %w", words.Text(jid), ErrNotFound)
}

// ours are the processes of troupe that are on the list of processes.
func (i *Inspector) ours(ctx context.Context) (ids []string, err error) {
	known, err := i.Processes(ctx)
	if err != nil {
		return nil, err
	}
	pulses, err := beat.ReadPulses(ctx, i.db())
	if err != nil {
		return nil, fmt.Errorf("read pulses: %w", err)
	}
	for _, p := range known {
		if pulses[p.Identity] != nil {
			ids = append(ids, p.Identity)
		}
	}
	return ids, nil
}
