package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

	cause error
}

func (e *RefusedError) Error() string { return e.Process + ": " + e.Why }

func (e *RefusedError) Unwrap() error { return e.cause }

// Place is where Cancel has found a job.
type Place string

// The places of a job that Cancel ends.
const (
	Queued    Place = "queued"    // it waited in its queue
	Scheduled Place = "scheduled" // it was to run later
	Retrying  Place = "retrying"  // it had failed and was to run again
	Held      Place = "held"      // a limit held it
	Running   Place = "running"
	Fetched   Place = "fetched" // a process had taken it from its queue, and had not begun it
)

// Cancelled is what Cancel has found and done.
type Cancelled struct {
	Place   Place
	Queue   string // of a job that was Queued or Held
	Rule    string // that held a job: the limit, and what it counts together
	Process string // identity, of a job that was Running or Fetched

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
	case Held:
		return "the limit " + words.Text(c.Rule) + " held it and it " + is
	case Retrying:
		return "it was to be retried and " + is
	case Fetched:
		return "it was fetched by " + words.Text(c.Process) + ", had not begun and " + is
	case Running:
	default:
		return "it was not found"
	}
	return "it runs in " + words.Text(c.Process) + " and is asked to end"
}

const (
	// replyTime is how long processes have to answer if the context has no deadline.
	replyTime = 5 * time.Second
	// searches is how often Cancel looks everywhere: a job may move on meanwhile.
	searches = 3
	// handTime is the time between two looks for a job that a process has and neither runs nor has waiting: its
	// reply of Redis is on its way, or the job goes back to its queue.
	handTime = 100 * time.Millisecond
)

// Cancel ends a job wherever it is. One that waits, is held by a limit, is scheduled or is to be retried is deleted, and
// so is one that a process of troupe has fetched and not begun; one that runs is cancelled as
// CancelRunning does it, and what becomes of it is its handler's affair. An iterable job that has
// begun is asked to end by its state, stays where it is and ends, after OnCancel, when it runs next.
// It looks into both sets, what limits hold, all queues and all processes.
//
// A job that is nowhere, or dead, is ErrNotFound; one that a process has and does not give up a
// *RefusedError; ErrNoReply means that a process did not answer, within 5 s if ctx has no deadline.
// A job that a dead process has left goes back to its queue within a minute: until then it is a
// *RefusedError, or ErrNoReply.
func (i *Inspector) Cancel(ctx context.Context, jid string) (Cancelled, error) {
	until := time.Now().Add(replyTime)
	var inHand error
	for missed := 0; ; {
		c, err := i.cancel(ctx, jid)
		if err != nil && inHand != nil && ctx.Err() != nil {
			return c, inHand
		}
		if errors.Is(err, errInHand) && time.Now().Before(until) {
			inHand = err
			t := time.NewTimer(handTime)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
			}
			continue
		}
		if missed++; !errors.Is(err, ErrNotFound) || missed == searches {
			return c, err
		}
	}
}

// errInHand says of a RefusedError that another look may find the job elsewhere.
var errInHand = errors.New("in hand")

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
	for one, err := range i.HeldJobs(ctx) {
		if err == nil && one.Held.JID != jid {
			continue
		}
		if done, err := taken(asked, err, func() (Outcome, error) { return one.Delete(ctx) }); done || err != nil {
			c := Cancelled{Place: Held, Deleted: !asked}
			if one != nil {
				c.Queue, c.Rule = one.Queue, one.Held.Rule
			}
			return c, err
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
	process, deleted, err := i.askProcesses(ctx, control.Request{Do: control.Cancel, JID: jid, Fetched: true})
	silent := errors.Is(err, ErrNoReply)
	switch {
	case deleted:
		return Cancelled{Place: Fetched, Process: process, Deleted: true}, nil
	case !silent && !errors.Is(err, ErrNotFound):
		return Cancelled{Place: Running, Process: process}, err
	case silent: // ctx may be over by that
		look, stop := context.WithTimeout(context.WithoutCancel(ctx), replyTime)
		defer stop()
		ctx = look
	}
	f, failed := i.fetcherOf(ctx, jid)
	switch {
	case failed != nil:
		return Cancelled{}, failed
	case f != nil && asked:
		return Cancelled{Place: Fetched, Process: f.Process}, nil
	case f != nil && (!f.Alive || f.Fenced):
		return Cancelled{}, &RefusedError{Process: f.Process, Why: "it has died, and its job " + words.Text(jid) + " goes back to the queue within a minute, or by `troupe rescue`: cancel it then"}
	case f != nil && silent:
		return Cancelled{}, fmt.Errorf("%s has the job %s and does not answer (if it has died, the job goes back to its queue within a minute): %w", words.Text(f.Process), words.Text(jid), err)
	case f != nil:
		return Cancelled{}, &RefusedError{Process: f.Process, Why: "it has the job " + words.Text(jid) + ", which neither runs nor waits there: cancel it again", cause: errInHand}
	}
	if _, dead := i.DeadSet.FindJob(ctx, jid); dead == nil {
		err = fmt.Errorf("the job %s is dead, and does not run again by itself: %w", words.Text(jid), ErrNotFound)
	}
	return Cancelled{}, err
}

// fetcherOf is the fetcher that has the job in progress; nil if none has.
func (i *Inspector) fetcherOf(ctx context.Context, jid string) (*Fetcher, error) {
	for claim, err := range i.Claims(ctx) {
		if err != nil {
			return nil, err
		}
		for one, err := range claim.Each(ctx) {
			if err != nil {
				return nil, err
			}
			if one.JID == jid {
				return claim.Fetcher, nil
			}
		}
	}
	return nil, nil
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
	process, _, err = i.askProcesses(ctx, control.Request{Do: control.Cancel, JID: jid})
	return process, err
}

// askProcesses asks all of them to cancel a job.
func (i *Inspector) askProcesses(ctx context.Context, r control.Request) (process string, deleted bool, err error) {
	jid := r.JID
	iterable, err := i.askIteration(ctx, jid)
	if err != nil {
		return "", false, fmt.Errorf("cancel %s: %w", words.Text(jid), err)
	}
	ours, err := i.ours(ctx)
	if err != nil {
		return "", false, err
	}
	call := ctx
	if _, bounded := ctx.Deadline(); !bounded {
		var stop context.CancelFunc
		call, stop = context.WithTimeout(ctx, replyTime)
		defer stop()
	}
	unsaid := control.Send(call, i.db(), ours, r, func(r control.Reply) bool {
		switch r.Result {
		case control.Done, control.Deleted:
			process, deleted = r.Process, r.Result == control.Deleted
		case control.Refused:
			process, err = r.Process, &RefusedError{Process: r.Process, Why: r.Why}
		}
		return process == ""
	})
	switch {
	case err != nil:
		return "", false, err
	case process != "" || unsaid != nil && !errors.Is(unsaid, ErrNoReply):
		return process, deleted, unsaid
	}
	works, err := i.Works(context.WithoutCancel(ctx))
	if err != nil {
		return "", false, err
	}
	for _, w := range works {
		switch {
		case w.Job.JID != jid:
		case iterable:
			return w.Process, false, nil
		case unsaid == nil && !slices.Contains(ours, w.Process): // of those, what they show may be over
			return "", false, &RefusedError{Process: w.Process, Why: fmt.Sprintf("the job %s is no iterable one, and this is a Ruby process: it cannot be cancelled there", words.Text(jid))}
		}
	}
	if unsaid != nil {
		return "", false, unsaid
	}
	return "", false, fmt.Errorf("no process runs the job %s: %w", words.Text(jid), ErrNotFound)
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
