package testkit

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
)

// expectTime is how long Expect waits; less than the first retry of a job takes.
const expectTime = 10 * time.Second

// excessTime is how long Expect watches for events too many where Within does not
// say. In a bubble it catches what is under way; in real time most of that.
const excessTime = 10 * time.Millisecond

// Expect runs do and waits until the daemon has published as many events as f
// expects, counted from the call of Expect; nil means to wait only. Fewer, or
// more, fail the test with those that were seen. A strict kit does not count
// them as unexpected. A filter with Times and Within takes all of that
// time: give it only as long as matters, or a bubble.
func (k *Kit) Expect(f Filter, do func()) {
	k.tb.Helper()
	k.check("Expect", f)
	var mu sync.Mutex
	var seen []event.Event
	tooMany := make(chan struct{})
	cancel := k.Subscribe(func(e event.Event) {
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
	enough := harness.Within(limit, func() bool { return count() >= f.min })
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
	fmt.Fprintf(&b, "expected %s, got %d", f.words(), len(seen))
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
