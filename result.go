package troupe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/jobctx"
	"github.com/troupehq/troupe/internal/wirejson"
)

// MaxResult is how many bytes a result has at most, as JSON.
const MaxResult = 64 << 10

// reporter takes what a handler tells of its job.
type reporter interface {
	SetResult(text json.RawMessage) error
	SetProgress(done, total int64, text string)
}

// SetResult keeps v as the result of the job, for client.Await. It is written as JSON, by the rules of Payload.SetJSON, in
// the step that ends the job, if this run succeeds: a run that fails, is put off or is no longer the job's leaves
// nothing. The last call of a run counts. The result is kept for Options.ResultFor, an hour if that is unset, and is
// the first thing that is given up when Redis is out of memory.
//
// It fails with an *EncodeError for a value that has no place in JSON, and with an error that names it for one of more than
// MaxResult bytes. It fails, too, where results cannot be kept: outside of a run, after its end, without a jid, on a Redis
// Cluster, with the basic fetcher and with the jobs of other systems. Safe for concurrent use.
func (j *Job[A]) SetResult(v any) error { return SetResult(j.ctx, v) }

// SetResult keeps v as the result of the job that ctx belongs to, as Job.SetResult does.
func SetResult(ctx context.Context, v any) error {
	text, fault := wirejson.Encode(v, 0)
	switch {
	case fault != nil:
		return fmt.Errorf("set result: %w", (*EncodeError)(fault))
	case len(text) > MaxResult:
		return fmt.Errorf("set result: it has %d bytes of JSON, expected at most %d (troupe.MaxResult); keep large ones elsewhere, and their name as the result", len(text), MaxResult)
	}
	r := reporterOf(ctx)
	if r == nil {
		return fmt.Errorf("set result: %w", errNoRun)
	}
	if err := r.SetResult(text); err != nil {
		return fmt.Errorf("set result: %w", err)
	}
	return nil
}

var errNoRun = errors.New("the context belongs to no job, expected that of a handler")

func reporterOf(ctx context.Context) reporter {
	if ctx == nil {
		return nil
	}
	r, _ := ctx.Value(jobctx.Report{}).(reporter)
	return r
}

// HandleResult is Handle of a function that returns the result of its job: with a nil error it is set as by
// Job.SetResult, and an error of that is the job's. The ends of all jobs of the class are kept, for an hour if no
// ResultFor is set.
func HandleResult[A Args, R any](r *Registry, fn func(context.Context, *Job[A]) (R, error), opts ...Options) {
	if fn == nil {
		Handle[A](r, nil)
	}
	if defaults, err := DefaultsOf(newArgs[A]()); err == nil && defaults.ResultFor == 0 {
		opts = append([]Options{{ResultFor: time.Hour}}, opts...)
	}
	Handle(r, func(ctx context.Context, job *Job[A]) error {
		result, err := fn(ctx, job)
		if err == nil {
			err = SetResult(ctx, result)
		}
		if errchain.Is(err, errNoRun) { // a test that calls the handler
			return nil
		}
		return err
	}, opts...)
}

// MaxProgressText is how many bytes of the text of Job.SetProgress are shown.
const MaxProgressText = 256

// SetProgress tells how far the job has come: done of total units, whatever these are, and in words. A total of 0 is one that
// is not known. The text may be "", and is cut at MaxProgressText bytes. What was told last is shown by troupe jobs, the
// dashboard and package inspect while this run lasts, with the rate of the last two minutes and the time that is left at it.
//
// It writes nothing to Redis. The daemon does, once a second at most for all its jobs, and only of a job that has run for
// about a second. So it may be called for each unit. Numbers below 0 count as 0. After the end of the run, without a jid and
// outside of a daemon it does nothing. Safe for concurrent use.
//
// An iterable job counts its items by itself, of the total that IterableOptions.Total tells. From its first SetProgress
// on a run tells what the handler says instead.
func (j *Job[A]) SetProgress(done, total int64, text string) { SetProgress(j.ctx, done, total, text) }

// SetProgress tells how far the job has come that ctx belongs to, as Job.SetProgress does.
func SetProgress(ctx context.Context, done, total int64, text string) {
	if r := reporterOf(ctx); r != nil {
		r.SetProgress(max(0, done), max(0, total), text)
	}
}
