package troupe

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"
)

// Registry holds the handlers of a daemon by class. The zero value is ready;
// all methods and functions on it are safe for concurrent use. It must not be
// copied.
type Registry struct {
	mu      sync.RWMutex
	entries map[string]Entry
}

// Entry is one registered class.
type Entry struct {
	Class   string
	Handler Handler // as registered, without Options.Middleware
	Options ClassOptions

	// Iterable: registered with HandleIterable; the daemon gives its jobs an
	// IterationKeeper.
	Iterable bool
}

// Chain returns the handler inside its class's own middleware inside outer.
func (e Entry) Chain(outer ...Middleware) Handler {
	return Chain(Chain(e.Handler, e.Options.Middleware...), outer...)
}

// ClassOptions is what a class may set for its jobs. The zero value changes
// nothing. Callbacks are called concurrently; one that panics counts as not set.
type ClassOptions struct {
	// Retry applies to payloads whose field "retry" is absent or null.
	Retry Retry

	// RetryIn chooses the wait before the next attempt. count is 0 at the first
	// failure; p is the stored payload with the fields of this failure.
	RetryIn func(count int, err error, p *Payload) Delay

	// Exhausted is called when no retry is left, before the job goes to the
	// dead set; discard keeps it out of there. Death handlers run either way.
	Exhausted func(p *Payload, err error) (discard bool)

	// Timeout cancels the job's context, with cause ErrJobTimeout; 0 means never.
	Timeout time.Duration

	// Recovery is where a job goes whose process died under it. The process that
	// puts it back decides: all should have the same.
	Recovery Recovery

	// Middleware wraps this class only, inside of the daemon's own.
	Middleware []Middleware

	// Backtrace is how many lines of a failure's stack are stored when the
	// payload has no field "backtrace": 0 none, -1 all.
	Backtrace int
}

// Retry is a class's own retry rule. The zero value is unset: 25 retries, or
// what the daemon is configured to.
type Retry struct {
	max   int
	never bool
	set   bool
}

// RetryNever drops a job that fails: no retry, no dead set, only death
// handlers. It is Ruby's "retry: false".
var RetryNever = Retry{never: true, set: true}

// RetryTimes allows n retries, n+1 runs in all. With 0 the first failure sends
// the job to the dead set.
func RetryTimes(n int) Retry { return Retry{max: n, set: true} }

// Get returns the rule: max is meaningful if set is true and never false.
func (r Retry) Get() (max int, never, set bool) { return r.max, r.never, r.set }

// Delay is the answer of a RetryIn callback: above 0 a wait, to which jitter is
// added; KillDelay; DiscardDelay; anything else is the default wait.
type Delay time.Duration

// Answers of a RetryIn callback that are no wait.
const (
	KillDelay    Delay = math.MinInt64     // no more retries: exhausted now
	DiscardDelay Delay = math.MinInt64 + 1 // not stored anywhere; death handlers run
)

// Handle registers fn for the class of A. At most one ClassOptions may be
// given. It panics on a mistake in the program: a class that is empty or has a
// handler already, an A that cannot be mapped to arguments (see EncodeArgs), or
// options that contradict each other.
func Handle[A Args](r *Registry, fn func(context.Context, *Job[A]) error, opts ...ClassOptions) {
	handle(r, fn, false, opts)
}

func handle[A Args](r *Registry, fn func(context.Context, *Job[A]) error, iterable bool, opts []ClassOptions) {
	t := reflect.TypeFor[A]()
	if t.Kind() == reflect.Interface {
		panic(fmt.Sprintf("troupe: Handle: %v is an interface, not a type of arguments", t))
	}
	if fn == nil {
		panic(fmt.Sprintf("troupe: Handle: nil function for %v", t))
	}
	if _, err := argsPlanOf(t); err != nil {
		panic(fmt.Sprintf("troupe: Handle: %v", err))
	}
	class := newArgs[A]().Class()
	if class == "" {
		panic(fmt.Sprintf("troupe: Handle: empty class of %v", t))
	}
	r.add(Entry{Class: class, Handler: adapt(fn), Iterable: iterable}, opts)
}

// HandleClass registers a raw handler, which reads the payload itself. It
// panics as Handle does.
func HandleClass(r *Registry, class string, h Handler, opts ...ClassOptions) {
	switch {
	case class == "":
		panic("troupe: Handle: empty class")
	case h == nil:
		panic(fmt.Sprintf("troupe: Handle: nil handler for class %q", class))
	}
	r.add(Entry{Class: class, Handler: h}, opts)
}

func (r *Registry) add(e Entry, opts []ClassOptions) {
	if len(opts) > 1 {
		panic(fmt.Sprintf("troupe: Handle: %d ClassOptions for class %q, at most one expected", len(opts), e.Class))
	}
	if len(opts) == 1 {
		e.Options = opts[0]
	}
	if err := e.Options.Recovery.Validate(); err != nil {
		panic(fmt.Sprintf("troupe: Handle: class %q: %v", e.Class, err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.entries[e.Class]; taken {
		panic(fmt.Sprintf("troupe: Handle: second handler for class %q", e.Class))
	}
	if r.entries == nil {
		r.entries = make(map[string]Entry)
	}
	r.entries[e.Class] = e
}

// Lookup returns the entry of a class.
func (r *Registry) Lookup(class string) (Entry, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.entries[class]
	return e, ok
}

// Classes returns all registered classes, sorted.
func (r *Registry) Classes() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.entries))
}
