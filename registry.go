package troupe

import (
	"context"
	"errors"
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
	aliases map[string]string // from a former name to the class whose handler runs it
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return new(Registry) }

// AnyClass is the class of a fallback handler: HandleClass(r, AnyClass, h) registers one for the jobs
// of every class that has neither a handler nor an Alias. A job without a class is none of them.
const AnyClass = "*"

// Entry is one registered class, for what runs handlers: the daemon, testkit, a test of
// yours.
type Entry struct {
	Class   string
	Handler Handler // as registered, without Options.Middleware
	Options Options // Handle's over those of the type

	// Iterable: registered with HandleIterable; the daemon keeps the
	// Iteration of its jobs.
	Iterable bool

	// Collect is that of HandleMany, with its defaults; the zero value for other handlers.
	Collect Collect
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
// added; a wait of Exactly; KillDelay; DiscardDelay; anything else is the default wait. The jitter is
// Sidekiq's: 0 to 10·attempt seconds, so that jobs which failed together do not come back together.
type Delay time.Duration

// Exactly is the wait d without jitter; that of 0 or less is the default wait, with jitter.
func Exactly(d time.Duration) Delay {
	if d <= 0 {
		return 0
	}
	return exact | Delay(d)
}

// exact marks a Delay of Exactly: as a wait it would be 146 years.
const exact Delay = 1 << 62

// Wait is the wait that d asks for, and whether no jitter is added to it; 0 if it is none.
func (d Delay) Wait() (wait time.Duration, exactly bool) {
	return time.Duration(max(d&^exact, 0)), d >= exact
}

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
	handle(r, fn, Entry{}, opts)
}

// handle adds e with fn as its handler.
func handle[A Args](r *Registry, fn func(context.Context, *Job[A]) error, e Entry, opts []Options) {
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
	e.Class, e.Handler, e.Options = class, adapt(fn), defaults
	r.add(e, opts)
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
		case o.Unique != nil:
			err = errors.New("Unique is set, expected nil: it belongs to a push, so to Defaults or client.Unique")
		case o.Encrypt:
			err = errors.New("Encrypt is true, expected false: it belongs to a push, so to Defaults or client.Encrypt") //nolint:staticcheck // the name of a field
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
	if e.Collect != (Collect{}) {
		if err := e.Collect.validate(e.Options.Timeout); err != nil {
			panic(fmt.Sprintf("troupe: HandleMany: class %q: %v", e.Class, err))
		}
	}
	if _, set := e.Options.Take.Percent(); e.Options.RestQueue != "" && !set {
		panic(fmt.Sprintf("troupe: Handle: class %q: RestQueue is %q, expected none without Take", e.Class, e.Options.RestQueue))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.entries[e.Class]; taken {
		panic(fmt.Sprintf("troupe: Handle: second handler for class %q", e.Class))
	}
	if to, taken := r.aliases[e.Class]; taken {
		panic(fmt.Sprintf("troupe: Handle: second handler for class %q, which is an alias of %q", e.Class, to))
	}
	if r.entries == nil {
		r.entries = make(map[string]Entry)
	}
	r.entries[e.Class] = e
}

// Alias lets the handler of class, which must be registered, run the jobs of the class former, too.
// It is for a class that was renamed, as long as jobs with its former name are in Redis or are pushed by
// an older release. Their bytes keep the former name, also in a retry, so that the older release can run them.
// Options, middleware and metrics are those of class. Alias panics on a mistake in the program: if
// class has no handler, or if former is empty or has a handler or an alias already.
func (r *Registry) Alias(former, class string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bad := func(what string) { panic(fmt.Sprintf("troupe: Alias: %s", what)) }
	_, known := r.entries[class]
	_, handled := r.entries[former]
	other, aliased := r.aliases[former]
	switch {
	case former == "" || former == AnyClass || class == AnyClass:
		bad(fmt.Sprintf("from %q to %q, expected the names of two classes", former, class))
	case handled:
		bad(fmt.Sprintf("the class %q has a handler", former))
	case aliased:
		bad(fmt.Sprintf("the class %q is an alias of %q already", former, other))
	case !known:
		bad(fmt.Sprintf("no handler for class %q, expected it to be registered before its alias %q", class, former))
	}
	if r.aliases == nil {
		r.aliases = make(map[string]string)
	}
	r.aliases[former] = class
}

// Aliases returns the class whose handler runs the jobs of each former name.
func (r *Registry) Aliases() map[string]string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return maps.Clone(r.aliases)
}

// Lookup returns the entry that runs the jobs of a class: its own, else that of the class it is an
// alias of, else that of AnyClass.
func (r *Registry) Lookup(class string) (Entry, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.entries[class]
	if !ok {
		e, ok = r.entries[r.aliases[class]]
	}
	if !ok && class != "" {
		e, ok = r.entries[AnyClass]
	}
	return e, ok
}

// Classes returns all registered classes, sorted, without aliases.
func (r *Registry) Classes() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.entries))
}
