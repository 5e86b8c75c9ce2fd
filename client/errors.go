package client

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/words"
)

// ErrStopped is the error of a push that middleware has stopped: nothing is wrong, and nothing was
// pushed. A Middleware returns it, or an error that wraps it and says why, which the caller of the
// push then gets; returning nil without calling next does the same. In a bulk push the jid of such a
// job is "", the others are pushed, and the error is or wraps a *StoppedError.
var ErrStopped = errors.New("push stopped by middleware")

// StoppedError lists the jobs of a bulk push that middleware has stopped, and the duplicates of unique jobs. Nothing is
// wrong with the others. errors.Is reports that it is ErrStopped.
type StoppedError struct {
	// Jobs has the error of each such job, ErrStopped or what wraps it, by the number of the job from 0: that
	// of its jid, which is "", in the result.
	Jobs map[int]error
}

func (e *StoppedError) Error() string {
	if len(e.Jobs) == 0 {
		return ErrStopped.Error()
	}
	first := slices.Min(slices.Collect(maps.Keys(e.Jobs)))
	return fmt.Sprintf("%s not pushed, the first is job %d: %v", words.Plural(len(e.Jobs), "job"), first+1, e.Jobs[first])
}

// Unwrap returns ErrStopped.
func (e *StoppedError) Unwrap() error { return ErrStopped }

// FieldError says which part of a push breaks the rules. Nothing was sent.
type FieldError struct {
	Field string // key of the payload or name of the option: "queue", "retry_for", "at"
	Got   string // what was given; of arguments never more than their JSON kind
	Want  string // what is expected
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: got %s, want %s", e.Field, e.Got, e.Want)
}

// fielded is err as a *FieldError, if it is a fault of a field.
func fielded(err error) error {
	if f, ok := errchain.As[*limits.Fault](err); ok {
		return &FieldError{f.Field, f.Got, f.Want}
	}
	return err
}

// MiddlewareError is a push that a Middleware has failed: Err is what it
// returned, a *troupe.PanicError, or a *FieldError for the payload it left
// behind. Nothing was sent.
type MiddlewareError struct{ Err error }

func (e *MiddlewareError) Error() string { return "client middleware: " + e.Err.Error() }

func (e *MiddlewareError) Unwrap() error { return e.Err }

// UnavailableError is a push that failed because Redis is away or refuses it for
// now: it cannot be reached, loads its data, is a replica, has no memory left, or
// refuses the login. The same push may succeed later.
//
// With WithBuffer it is also a push that found no room in the buffer, and what Flush and
// Close return if jobs are left in it.
type UnavailableError struct {
	// Maybe: the job may be in Redis all the same, since the connection broke, or
	// the time was up, before its answer came. Pushed again it could be there twice.
	Maybe bool

	// Buffered is how many jobs are in the buffer, 0 if they have nothing to do with the
	// error. After Close they are lost; the last batch of them may have arrived.
	Buffered int

	Err error // why Redis does not take the job, or what is in the buffer

	full bool // the buffer had no room for a push
}

func (e *UnavailableError) Error() string {
	why := "redis is away"
	if r, ok := redisconn.Refused(e.Err); ok {
		why = "redis refuses it: " + r.Text
	} else if _, ok := errchain.As[*redisconn.PanicError](e.Err); ok {
		why = "a hook of the client has panicked"
	}
	switch {
	case e.full:
		return fmt.Sprintf("%s and the buffer is full with %d jobs, the job was not pushed: %v", why, e.Buffered, e.Err)
	case e.Buffered > 0:
		return fmt.Sprintf("%d jobs are buffered and not in Redis: %v", e.Buffered, e.Err)
	case e.Maybe:
		return why + ", the job may have been pushed: " + e.Err.Error()
	}
	return why + ", the job was not pushed: " + e.Err.Error()
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// ErrClosed is the error of a push after Close.
var ErrClosed = errors.New("the client was closed")
