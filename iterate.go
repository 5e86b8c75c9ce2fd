package troupe

import (
	"context"
	"fmt"
	"reflect"
)

// IterableOptions are the Options of an iterable job and its hooks. The
// zero value changes nothing. A hook is called at a turning point. One that returns an error, or panics, fails the
// run, and the job is retried from its cursor.
type IterableOptions[A Args] struct {
	Options

	// Total tells how many items the job has in all, for its progress; 0 if that is not known. It is called at the begin
	// of each run, before the hooks. An error, or a panic, fails the run.
	Total func(ctx context.Context, job *Job[A]) (int64, error)

	// OnStart is called before the first item of the first run. It is called
	// again if that run failed in OnStart, or if its process died in the first
	// seconds.
	OnStart func(ctx context.Context, job *Job[A], it Iteration) error
	// OnResume is called before the first item of every later run.
	OnResume func(ctx context.Context, job *Job[A], it Iteration) error
	// OnStop is called after the last item of a run that was not ended by an
	// error: interrupted, cancelled or complete.
	OnStop func(ctx context.Context, job *Job[A], it Iteration) error
	// OnCancel is called before OnStop when somebody has cancelled the job.
	OnCancel func(ctx context.Context, job *Job[A], it Iteration) error
	// OnComplete is called last, when there will be no further run: after the last
	// item of all and also, as in Sidekiq, after a cancellation; Iteration.Cancelled
	// tells which. It may be called again if it fails, or if the process dies
	// before the job is known to be done.
	OnComplete func(ctx context.Context, job *Job[A], it Iteration) error
}

// HandleIterable registers a job that works through a list and may be
// interrupted between two items: at quiet, at a stop, after
// Config.MaxIterationRuntime, or by the death of its process. It goes on where
// it was, in any process, even in Ruby: the state is that of Sidekiq's
// IterableJob (7.3 and later), and so is the meaning of the cursor.
//
// items yields the list from cursor on, which is nil in the first run. A cursor
// names an item, and iterating from it begins with that item: a database id of
// which the query asks id >= cursor, or the index in a slice (see YieldSlice).
// It is saved as JSON. When yield returns false items must return; what it
// returns then does not matter. Any other error of items fails the run, and the
// retry begins with the item that was yielded last.
//
// each does the work of one item. When it fails the job is retried, beginning
// with this item. It may return ErrInterrupted to end this run and push the job
// to the back of its queue. Both must heed ctx.
//
// Between two items, every 4 s, the cursor is saved and a cancellation looked
// for; an iteration is never ended in the middle of an item. So an item may run
// more than once, and each must bear that:
//
//   - the process dies, or is killed at the stop deadline: the job goes on with
//     the cursor saved last, and the items since, at most 4 s of them and the one
//     at hand, run again;
//   - it dies after an error or an interruption: the cursor is saved before the
//     job leaves the process for the retry set or its queue. Rescued in between,
//     it goes on with the new cursor, which is never earlier than the old one;
//   - it dies after the last item: the state is deleted only when the ack is in
//     Redis. Before that the job is rescued and goes on with the cursor saved
//     last, not with the first item; after it nobody runs the job any more, and
//     what is left of the state expires after 30 days;
//   - Redis is away: the iteration goes on and saves when it is back; until then
//     it is not interrupted. A run that fails waits for Redis, as any job does.
//
// It panics as Handle does.
func HandleIterable[A Args, C, T any](
	r *Registry,
	items func(ctx context.Context, job *Job[A], cursor *C, yield func(C, T) bool) error,
	each func(ctx context.Context, job *Job[A], item T) error,
	opts ...IterableOptions[A],
) {
	h := &iterable[A, C, T]{items: items, each: each}
	switch {
	case items == nil || each == nil:
		panic(fmt.Sprintf("troupe: HandleIterable: nil function for %v", reflect.TypeFor[A]()))
	case len(opts) > 1:
		panic(fmt.Sprintf("troupe: HandleIterable: %d IterableOptions for %v, at most one expected", len(opts), reflect.TypeFor[A]()))
	case len(opts) == 1:
		h.opts = opts[0]
	}
	handle(r, h.perform, Entry{Iterable: true}, []Options{h.opts.Options})
}

// YieldSlice yields a slice from the index cursor on, nil for all of it: the
// items of a job whose list fits in memory and is the same in each run. Its
// cursors are those of array_enumerator and csv_enumerator in Ruby.
func YieldSlice[T any](list []T, cursor *int, yield func(int, T) bool) error {
	first := 0
	if cursor != nil {
		first = *cursor
	}
	if first < 0 {
		return fmt.Errorf("troupe: the cursor %d is below 0", first)
	}
	for i := first; i < len(list); i++ {
		if !yield(i, list[i]) {
			return nil
		}
	}
	return nil
}
