package testkit

import (
	"fmt"
	"path"
	"reflect"
	"strings"
	"time"

	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/errchain"
)

// Filter picks events and says how many of them are expected: at least one,
// unless Times or AtLeast says otherwise. Events, Crashes and Restarts make one; the
// zero value cannot be used. Filters are values: each method returns a changed copy.
type Filter struct {
	what     string
	match    func(event.Event) bool
	min, max int // max < 0: any number
	wait     time.Duration
	bad      error // in a pattern
}

// Events picks every event of type E for which all of where hold.
func Events[E event.Event](where ...func(E) bool) Filter {
	return Filter{
		what: reflect.TypeFor[E]().Name(), min: 1, max: -1,
		match: func(e event.Event) bool {
			ev, ok := e.(E)
			for _, f := range where {
				ok = ok && f(ev)
			}
			return ok
		},
	}
}

// Crashes picks crashes of the actors at pattern; see Filter.At. The crash of a
// processor after a job that panicked is one.
func Crashes(pattern string) Filter { return Events[event.ActorCrashed]().At(pattern) }

// Restarts picks restarts of the actors at pattern; see Filter.At.
func Restarts(pattern string) Filter { return Events[event.ActorRestarted]().At(pattern) }

// At narrows a filter of events about actors, such as Events[event.ActorStopped](),
// to the actors whose path matches pattern. There * is any part of a name, as in
// path.Match: launcher/default/processor-*.
func (f Filter) At(pattern string) Filter {
	if _, err := path.Match(pattern, ""); err != nil {
		f.bad = fmt.Errorf("pattern %q: %w", pattern, err)
	}
	return f.where(" of "+pattern, func(e event.Event) bool {
		a, isActor := actorOf(e)
		ok, err := path.Match(pattern, a.Path)
		return isActor && ok && err == nil
	})
}

// Of narrows a filter of events about jobs, such as Events[event.JobDone](),
// to one class.
func (f Filter) Of(class string) Filter {
	return f.where(" of class "+class, func(e event.Event) bool {
		j, ok := jobOf(e)
		return ok && j.Job.Class == class
	})
}

// Because narrows a filter to events whose error is target, as errors.Is has it.
func (f Filter) Because(target error) Filter {
	return f.where(fmt.Sprintf(" because of %q", target), func(e event.Event) bool {
		return errchain.Is(causeOf(e), target)
	})
}

// Saying narrows a filter to events whose error contains text.
func (f Filter) Saying(text string) Filter {
	return f.where(fmt.Sprintf(" saying %q", text), func(e event.Event) bool {
		err := causeOf(e)
		return err != nil && strings.Contains(err.Error(), text)
	})
}

func (f Filter) where(words string, also func(event.Event) bool) Filter {
	match := f.match
	f.what += words
	f.match = func(e event.Event) bool { return match(e) && also(e) }
	return f
}

// Times expects exactly n; 0 expects none.
func (f Filter) Times(n int) Filter { f.min, f.max = n, n; return f }

// AtLeast expects n or more.
func (f Filter) AtLeast(n int) Filter { f.min, f.max = n, -1; return f }

// Within sets how long Expect waits; else it is 10 s. Beside Times it is
// also how long Expect watches for surplus events: all of d.
func (f Filter) Within(d time.Duration) Filter { f.wait = d; return f }

func (f Filter) words() string {
	switch {
	case f.max == 0:
		return "no " + f.what
	case f.max < 0:
		return fmt.Sprintf("at least %d %s", f.min, f.what)
	}
	return fmt.Sprintf("exactly %d %s", f.min, f.what)
}
