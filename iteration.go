package troupe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/troupehq/troupe/internal/jobctx"
	"github.com/troupehq/troupe/internal/wirejson"
)

// ErrInterrupted is what the handler of an iterable job returns when its run was
// ended before the last item, to go on later: see HandleIterable. It passes
// through the middleware like any error, as Sidekiq's exception does. The daemon
// pushes the job to the back of its queue: no retry is used up and no handler is
// told, but the statistics count the run as processed and as failed, as Sidekiq's
// do. Any other handler may return it, too.
var ErrInterrupted = errors.New("troupe: iterable job interrupted, to be continued")

// Iteration is how far an iterable job has come. Sidekiq 7.3 and later keep the
// same in the hash it-JID; the names in brackets are its fields there.
type Iteration struct {
	Executions int             // runs, this one included (ex)
	Cursor     json.RawMessage // of the item that runs now or next; nil before the first (c)
	Runtime    time.Duration   // of the runs that have ended, and in a hook also of this one (rt)
	Cancelled  time.Time       // when somebody cancelled the job, zero if nobody did (cancelled)

	// Done are the items before the cursor that have gone well in runs of troupe, Total how many there are in all as
	// IterableOptions.Total tells, 0 without it (t_done and t_total, which Ruby keeps and does not change).
	Done, Total int64
}

// keeper keeps the Iteration of one job from run to run and says when a run is to end
// early. The daemon gives one to each iterable job through the context, under
// jobctx.Keeper. Without one, as in a test that calls a handler, the job iterates from
// the first item to the last and nothing is saved.
//
// It is used by one goroutine at a time.
type keeper interface {
	// Load returns what was saved last, zero if nothing was. An error fails the
	// run before its first item: to begin anew would be wrong.
	Load(ctx context.Context) (Iteration, error)

	// Save is called now and then between two items, with the cursor of the next.
	// It returns when the job was cancelled, zero if it was not. It need not try
	// hard: an error ends nothing, the next call comes soon.
	Save(ctx context.Context, it Iteration) (cancelled time.Time, err error)

	// Moved is called when the cursor has moved on, or the first hook is done: what was pushed by
	// client.Within until now goes with it, and as far as it is the job has come. It tells whether so much was pushed that the
	// cursor is to be saved now.
	Moved(it Iteration) (save bool)

	// Drop is called when the item at hand has not gone well, and will run again: what it has pushed is forgotten.
	Drop()

	// Interrupted is asked before each item; true ends the run there.
	Interrupted() bool

	// End is called once at the end of a run whose first hook went well, also if it
	// panics. Unless the iteration is finished (out of items, or cancelled) the
	// keeper must save it before the job may run again; once it is, the keeper
	// must not forget it before the job is known to be done.
	End(it Iteration, finished bool)
}

func keeperFrom(ctx context.Context) keeper {
	if k, ok := ctx.Value(jobctx.Keeper{}).(keeper); ok {
		return k
	}
	return forgetful{}
}

// forgetful is the keeper where there is none.
type forgetful struct{}

func (forgetful) Load(context.Context) (Iteration, error)                  { return Iteration{}, nil }
func (forgetful) Save(context.Context, Iteration) (_ time.Time, err error) { return time.Time{}, nil }
func (forgetful) Moved(Iteration) bool                                     { return false }
func (forgetful) Drop()                                                    {}
func (forgetful) Interrupted() bool                                        { return false }
func (forgetful) End(Iteration, bool)                                      {}

// decodeCursor reads a saved cursor; nil if there is none. null is none, too: it
// is what Ruby saves before the first item.
func decodeCursor[C any](text json.RawMessage) (*C, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	cursor := new(C)
	if _, fault := wirejson.ScanWhole(text, 0); fault != "" {
		return nil, fmt.Errorf("the saved cursor is no JSON: %s", fault)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(cursor); err != nil {
		return nil, fmt.Errorf("the saved cursor %s does not fit %v: %w", text, reflect.TypeFor[C](), err)
	}
	return cursor, nil
}
