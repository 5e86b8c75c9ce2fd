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

	"github.com/troupehq/troupe/internal/args"
)

// Registry holds the handlers of a daemon by class. The zero value is ready;
// all methods and functions on it are safe for concurrent use. It must not be
// copied.
type Registry struct {
	mu      sync.RWMutex
	entries map[string]Entry
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return new(Registry) }

// Entry is one registered class, for what runs handlers: the daemon, testkit, a test of
// yours.
type Entry struct {
	Class   string
	Handler Handler // as registered, without Options.Middleware
	Options Options // Handle's over those of the type

	// Iterable: registered with HandleIterable; the daemon keeps the
	// Iteration of its jobs.
	Iterable bool
}

// Chain returns the handler inside its class's own middleware inside outer, of which the first
// is the outermost. A middleware that is nil, or returns nil, is an error that names it and the class.
func (e Entry) Chain(outer ...Middleware) (Handler, error) {
	h, err := chain(e.Handler, "Options.Middleware", e.Options.Middleware)
	if err == nil {
		h, err = chain(h, "Middleware", outer)
	}
	if err != nil {
		return nil, fmt.Errorf("class %q: %w", e.Class, err)
	}
	return h, nil
}

// Delay is the answer of a RetryIn callback: above 0 a wait, to which jitter is
// added; KillDelay; DiscardDelay; anything else is the default wait.
type Delay time.Duration

// Answers of a RetryIn callback that are no wait.
const (
	KillDelay    Delay = math.MinInt64     // no more retries: exhausted now
	DiscardDelay Delay = math.MinInt64 + 1 // not stored anywhere; death handlers run
)

// Handle registers fn for the class of A, with the Defaults of A and with opts,
// whose fields count before those of A; of several opts that set a field, the
// last one. It panics on a mistake in the program: a class that is empty or has a
// handler already, an A that cannot be mapped to arguments (see Args), or
// options that are out of range or contradict each other.
func Handle[A Args](r *Registry, fn func(context.Context, *Job[A]) error, opts ...Options) {
	handle(r, fn, false, opts)
}

func handle[A Args](r *Registry, fn func(context.Context, *Job[A]) error, iterable bool, opts []Options) {
	t := reflect.TypeFor[A]()
	if t.Kind() == reflect.Interface {
		panic(fmt.Sprintf("troupe: Handle: %v is an interface, not a type of arguments", t))
	}
	if fn == nil {
		panic(fmt.Sprintf("troupe: Handle: nil function for %v", t))
	}
	if _, err := args.PlanOf(t); err != nil {
		panic(fmt.Sprintf("troupe: Handle: %v", err))
	}
	args := newArgs[A]()
	class := args.Class()
	if class == "" {
		panic(fmt.Sprintf("troupe: Handle: empty class of %v", t))
	}
	defaults, err := DefaultsOf(args)
	if err != nil {
		panic(fmt.Sprintf("troupe: Handle: %v", err))
	}
	r.add(Entry{Class: class, Handler: adapt(fn), Options: defaults, Iterable: iterable}, opts)
}

// HandleClass registers a raw handler, which reads the payload itself, with the
// options opts. It panics as Handle does.
func HandleClass(r *Registry, class string, h Handler, opts ...Options) {
	switch {
	case class == "":
		panic("troupe: Handle: empty class")
	case isNil(h):
		panic(fmt.Sprintf("troupe: Handle: nil handler for class %q", class))
	}
	r.add(Entry{Class: class, Handler: h}, opts)
}

func (r *Registry) add(e Entry, opts []Options) {
	for _, o := range opts {
		err := o.validate()
		switch {
		case err != nil:
		case o.Queue != "":
			err = fmt.Errorf("Queue is %q, expected none: it belongs to a push, so to Defaults or client.Queue", o.Queue)
		case o.Tags != nil:
			err = fmt.Errorf("Tags is %q, expected none: they belong to a push, so to Defaults or client.Tags", o.Tags)
		}
		if err != nil {
			panic(fmt.Sprintf("troupe: Handle: class %q: %v", e.Class, err))
		}
		e.Options = e.Options.under(o)
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
