package troupe

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/words"
)

// PanicError is the outcome of a handler that panicked, or that ended its goroutine with
// runtime.Goexit, as t.FailNow does. It does not unwrap to Value: a panic is a fault
// whatever it was called with, never a Discard.
type PanicError struct {
	Value  any    // of the panic
	Goexit bool   // the handler called runtime.Goexit
	Stack  []byte // debug.Stack of the handler's goroutine
}

func (e *PanicError) Error() string {
	if e.Goexit {
		return "handler called runtime.Goexit"
	}
	return fmt.Sprintf("panic: %v", e.Value)
}

// ErrorClass returns "panic" or "goexit".
func (e *PanicError) ErrorClass() string {
	if e.Goexit {
		return "goexit"
	}
	return "panic"
}

// Backtrace returns the frames below the panic or the call.
func (e *PanicError) Backtrace() []string { return errchain.Frames(e.Stack) }

// UnknownClassError is the outcome of a job whose class has no handler here.
// It is an ordinary failure: the job is retried, perhaps by a daemon that has one.
type UnknownClassError struct {
	Class string
}

func (e *UnknownClassError) Error() string {
	return fmt.Sprintf("no handler for class %q", words.Text(e.Class))
}

// ExpiredError is why a job is in the dead set, or was dropped, that was not run: the time in its field "t_deadline"
// (client.ExpireAt) or after its field "expires_in" (of Sidekiq Pro), or Options.ExpireAfter of its class, had passed.
type ExpiredError struct {
	At time.Time // when it expired
}

func (e *ExpiredError) Error() string {
	return "not run: it has expired, at " + e.At.UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// ErrorClass returns the field "error_class" of a failure. The first error of
// the chain (as errors.As walks it) that has a method ErrorClass() string and
// does not answer "" decides. Else it is the Go type of the innermost error
// that a chain of single Unwraps reaches, without "*": "net.OpError",
// "troupe.ArgsError". Errors made by errors.New, fmt.Errorf and errors.Join
// are "error". A nil error gives "". Of a chain 100 errors are looked at, each once.
func ErrorClass(err error) string {
	switch {
	case err == nil:
		return ""
	case reflect.TypeOf(err) == plainError: // neither a class nor a chain
		return "error"
	}
	if class := ownClass(err); class != "" {
		return class
	}
	class := strings.TrimLeft(reflect.TypeOf(errchain.Innermost(err)).String(), "*")
	if strings.HasPrefix(class, "errors.") || strings.HasPrefix(class, "fmt.") {
		return "error"
	}
	return class
}

// plainError is the type of what errors.New makes.
var plainError = reflect.TypeOf(errors.New(""))

// classed is an error that tells its class.
type classed interface {
	error
	ErrorClass() string
}

// ownClass asks the errors of the chain. Their methods are user code and may panic.
func ownClass(err error) (class string) {
	defer func() {
		if recover() != nil {
			class = ""
		}
	}()
	if named, ok := errchain.As[classed](err); ok {
		class = named.ErrorClass()
	}
	return class
}

// EncodeError says which part of a Go value has no place in a job: see
// Payload.SetJSON. A push returns it, too.
type EncodeError struct {
	Path   string // from the value down: "[2].Price", `["k"]`; "" for the value itself
	Reason string
	Err    error // of a MarshalJSON or MarshalText method, else nil
}

func (e *EncodeError) Error() string {
	where := ""
	if e.Path != "" {
		where = " " + e.Path
	}
	if e.Err != nil {
		return fmt.Sprintf("encode JSON%s: %s: %v", where, e.Reason, e.Err)
	}
	return fmt.Sprintf("encode JSON%s: %s", where, e.Reason)
}

func (e *EncodeError) Unwrap() error { return e.Err }
