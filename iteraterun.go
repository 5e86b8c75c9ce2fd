package troupe

import (
	"context"
	"fmt"
	"time"

	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/wirejson"
)

// saveEvery is how long an iteration goes on, at least, without saving its
// cursor and looking for a cancellation. Sidekiq's is 5 s; a second less keeps
// within those 5 s a job whose items take up to a second.
const saveEvery = 4 * time.Second

// saveAgain is the wait after a save that failed.
const saveAgain = time.Second

type iterable[A Args, C, T any] struct {
	items func(context.Context, *Job[A], *C, func(C, T) bool) error
	each  func(context.Context, *Job[A], T) error
	opts  IterableOptions[A]
}

// perform is one run.
func (h *iterable[A, C, T]) perform(ctx context.Context, job *Job[A]) error {
	keeper := keeperFrom(ctx)
	it, err := keeper.Load(ctx)
	if err != nil {
		return fmt.Errorf("iterate: %w", err)
	}
	cursor, err := decodeCursor[C](it.Cursor)
	if err != nil {
		return fmt.Errorf("iterate: %w", err)
	}
	it.Executions++
	now := time.Now()
	run := &iterableRun[A]{ctx: ctx, job: job, keeper: keeper, it: it, began: now, due: now.Add(saveEvery)}
	start := h.opts.OnStart
	if it.Executions > 1 {
		start = h.opts.OnResume
	}
	if h.opts.Total != nil {
		if run.it.Total, err = h.opts.Total(ctx, job); err != nil {
			return fmt.Errorf("iterate: total: %w", err)
		}
		run.it.Total = max(0, run.it.Total)
	}
	if err := run.call(start); err != nil {
		return err
	}
	keeper.Moved(run.it)
	finished := false
	defer func() { keeper.End(run.iteration(), finished) }()

	var last []iterationHook[A]
	outcome := h.iterate(run, cursor)
	if errchain.Is(context.Cause(ctx), ErrCancelled) && (errchain.Is(outcome, ErrCancelled) || errchain.Is(outcome, context.Canceled)) {
		run.it.Cancelled, outcome = time.Now(), nil
		run.ctx = context.WithoutCancel(ctx) // for the hooks
	}
	switch {
	case errchain.Is(outcome, ErrInterrupted):
		last = []iterationHook[A]{h.opts.OnStop}
	case outcome != nil:
		return outcome
	case run.cancelled():
		last = []iterationHook[A]{h.opts.OnCancel, h.opts.OnStop, h.opts.OnComplete}
	default:
		last = []iterationHook[A]{h.opts.OnStop, h.opts.OnComplete}
	}
	for _, hook := range last {
		if err := run.call(hook); err != nil {
			return err
		}
	}
	finished = outcome == nil
	return outcome
}

// iterate returns nil when the items ran out or the job was cancelled.
func (h *iterable[A, C, T]) iterate(run *iterableRun[A], cursor *C) error {
	if run.cancelled() {
		return nil
	}
	var outcome error
	stopped := false
	yield := func(c C, item T) bool {
		if stopped {
			return false
		}
		stopped = true // unless the item goes well
		text, fault := wirejson.Encode(c, 0)
		if fault != nil {
			outcome = fmt.Errorf("iterate: the cursor: %w", (*EncodeError)(fault))
			return false
		}
		if run.it.Cursor = text; run.well {
			run.it.Done++ // it is before the cursor now
		}
		run.well = false
		if run.keeper.Moved(run.it) && !run.unsure {
			run.due = time.Time{}
		}
		goOn, err := run.mayGoOn()
		if err == nil && goOn {
			if err = h.each(run.ctx, run.job, item); err != nil {
				run.keeper.Drop()
			}
			run.well = err == nil
		}
		outcome = err
		stopped = err != nil || !goOn
		return !stopped
	}
	err := h.items(run.ctx, run.job, cursor, yield)
	switch {
	case stopped:
		return outcome
	case err == nil && run.ctx.Err() != nil: // it may have been cut short
		return context.Cause(run.ctx)
	}
	return err
}

// iterableRun is the state of one run.
type iterableRun[A Args] struct {
	ctx    context.Context //nolint:containedctx // of the run, as long as the run
	job    *Job[A]
	keeper keeper
	it     Iteration
	began  time.Time
	due    time.Time // of the next save
	unsure bool      // the last save has failed
	well   bool      // the last item has gone well, and the cursor is still its own
}

func (r *iterableRun[A]) cancelled() bool { return !r.it.Cancelled.IsZero() }

// iteration is the state with the time of this run.
func (r *iterableRun[A]) iteration() Iteration {
	it := r.it
	it.Runtime += time.Since(r.began)
	return it
}

func (r *iterableRun[A]) call(hook iterationHook[A]) error {
	if hook == nil {
		return nil
	}
	return hook(r.ctx, r.job, r.iteration())
}

// mayGoOn saves the cursor if it is time to, and reports whether its item may run.
// A run is interrupted only when its cursor has been saved: until then it is of
// more use at work.
func (r *iterableRun[A]) mayGoOn() (bool, error) {
	if r.ctx.Err() != nil {
		return false, context.Cause(r.ctx)
	}
	interrupted := r.keeper.Interrupted()
	if time.Now().Before(r.due) && (!interrupted || r.unsure) {
		return true, nil
	}
	cancelled, err := r.keeper.Save(r.ctx, r.it)
	r.unsure = err != nil
	if r.unsure {
		r.due = time.Now().Add(saveAgain)
		return r.ctx.Err() == nil, context.Cause(r.ctx)
	}
	r.due = time.Now().Add(saveEvery)
	r.it.Cancelled = cancelled
	switch {
	case r.cancelled():
		return false, nil
	case interrupted:
		return false, ErrInterrupted
	}
	return true, nil
}

// iterationHook is a hook of IterableOptions.
type iterationHook[A Args] = func(ctx context.Context, job *Job[A], it Iteration) error
