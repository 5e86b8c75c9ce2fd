package testkit

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe/actors"
)

// Filter picks events and says how many of them are expected: at least one,
// unless Times, AtLeast or Never says otherwise. Filters are values: each method
// returns a changed copy.
type Filter struct {
	what     string
	match    func(actors.Event) bool
	min, max int // max < 0: any number
	wait     time.Duration
	bad      error // in a pattern
}

// Events picks every event of type E for which all of where hold.
func Events[E actors.Event](where ...func(E) bool) Filter {
	return Filter{
		what: reflect.TypeFor[E]().Name(), min: 1, max: -1,
		match: func(e actors.Event) bool {
			ev, ok := e.(E)
			for _, f := range where {
				ok = ok && f(ev)
			}
			return ok
		},
	}
}

// Starts picks the first start of actors. In pattern * stands for any part of a
// name, as in path.Match: launcher/default/processor-*.
func Starts(pattern string) Filter { return about[actors.ActorStarted](pattern) }

// Crashes picks crashes of actors; see Starts for pattern. The crash of a
// processor after a job that panicked is one.
func Crashes(pattern string) Filter { return about[actors.ActorCrashed](pattern) }

// Restarts picks restarts of actors; see Starts for pattern.
func Restarts(pattern string) Filter { return about[actors.ActorRestarted](pattern) }

// Stops picks ends of actors; see Starts for pattern.
func Stops(pattern string) Filter { return about[actors.ActorStopped](pattern) }

// Escalations picks supervisors that gave up; see Starts for pattern.
func Escalations(pattern string) Filter { return about[actors.ActorEscalated](pattern) }

func about[E actors.Event](pattern string) Filter {
	f := Events[E]().where(" of "+pattern, func(e actors.Event) bool {
		a, _ := actorOf(e)
		ok, err := path.Match(pattern, a.Path)
		return ok && err == nil
	})
	if _, err := path.Match(pattern, ""); err != nil {
		f.bad = fmt.Errorf("pattern %q: %w", pattern, err)
	}
	return f
}

// Of narrows a filter of events about jobs, such as Events[actors.JobDone](),
// to one class.
func (f Filter) Of(class string) Filter {
	return f.where(" of class "+class, func(e actors.Event) bool {
		j, ok := jobOf(e)
		return ok && j.Job.Class == class
	})
}

// Because narrows a filter to events whose error is target, as errors.Is has it.
func (f Filter) Because(target error) Filter {
	return f.where(fmt.Sprintf(" because of %q", target), func(e actors.Event) bool {
		return errors.Is(causeOf(e), target)
	})
}

// Saying narrows a filter to events whose error contains text.
func (f Filter) Saying(text string) Filter {
	return f.where(fmt.Sprintf(" saying %q", text), func(e actors.Event) bool {
		err := causeOf(e)
		return err != nil && strings.Contains(err.Error(), text)
	})
}

func (f Filter) where(words string, also func(actors.Event) bool) Filter {
	match := f.match
	f.what += words
	f.match = func(e actors.Event) bool { return match(e) && also(e) }
	return f
}

// Times expects exactly n.
func (f Filter) Times(n int) Filter { f.min, f.max = n, n; return f }

// AtLeast expects n or more.
func (f Filter) AtLeast(n int) Filter { f.min, f.max = n, -1; return f }

// Never expects none.
func (f Filter) Never() Filter { return f.Times(0) }

// Within sets how long Expect waits; else it is 10 s. Beside Times or Never it is
// also how long Expect watches for one too many: all of d.
func (f Filter) Within(d time.Duration) Filter { f.wait = d; return f }

func (f Filter) String() string {
	switch {
	case f.max == 0:
		return "no " + f.what
	case f.max < 0:
		return fmt.Sprintf("at least %d %s", f.min, f.what)
	}
	return fmt.Sprintf("exactly %d %s", f.min, f.what)
}

// expectTime is how long Expect waits; less than the first retry of a job takes.
const expectTime = 10 * time.Second

// excessTime is how long Expect watches for events too many where Within does not
// say. In a bubble it catches what is under way; in real time most of that.
const excessTime = 10 * time.Millisecond

// Expect runs do and waits until the daemon has published as many events as f
// expects, counted from the call of Expect; nil means to wait only. Fewer, or
// more, fail the test with those that were seen. A strict kit does not count
// them as unexpected. A filter with Times or Never and Within takes all of that
// time: give it only as long as matters, or a bubble.
func (k *Kit) Expect(f Filter, do func()) {
	k.tb.Helper()
	k.check("Expect", f)
	var mu sync.Mutex
	var seen []actors.Event
	tooMany := make(chan struct{})
	cancel := k.Subscribe(func(e actors.Event) {
		if f.match(e) {
			mu.Lock()
			defer mu.Unlock()
			if seen = append(seen, e); len(seen) == f.max+1 {
				close(tooMany)
			}
		}
	})
	defer cancel()
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(seen) }
	if do != nil {
		do()
	}
	limit := cmp.Or(f.wait, expectTime)
	end := time.Now().Add(limit)
	enough := await(limit, func() bool { return count() >= f.min })
	if enough && f.max >= 0 {
		watch := excessTime
		if f.wait > 0 {
			watch = max(watch, time.Until(end))
		}
		t := time.NewTimer(watch)
		defer t.Stop()
		select {
		case <-tooMany:
		case <-t.C:
		}
	}
	if n := count(); enough && (f.max < 0 || n <= f.max) {
		k.Allow(f.Times(n))
		return
	}
	mu.Lock()
	defer mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "expected %s, got %d", f, len(seen))
	for _, e := range seen {
		b.WriteString("\n  " + formatEvent(e))
	}
	k.tb.Fatalf("%s\n%s", &b, k.show())
}

// check fails the test if f can pick nothing.
func (k *Kit) check(who string, f Filter) {
	k.tb.Helper()
	switch {
	case f.match == nil:
		k.tb.Fatalf("%s: the zero Filter picks nothing; make one with Events, Crashes, …", who)
	case f.bad != nil:
		k.tb.Fatalf("%s: %v", who, f.bad)
	}
}
