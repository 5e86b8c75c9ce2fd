package testkit

import (
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leakTime is how long goroutines may take to end after everything is closed.
const leakTime = 3 * time.Second

// checkLeaks looks at the end of the test for goroutines that were not there now.
func checkLeaks(tb testing.TB) {
	if inBubble() {
		before := bubbleGoroutines(true)
		tb.Cleanup(func() {
			var left []string
			for id, stack := range bubbleGoroutines(false) {
				if _, old := before[id]; !old && !slices.ContainsFunc(ownFuncs, func(f string) bool { return strings.Contains(stack, f) }) {
					left = append(left, stack)
				}
			}
			if len(left) > 0 {
				tb.Errorf("strict: found unexpected goroutines, which the bubble waits for in vain:\n%s", strings.Join(left, "\n\n"))
			}
		})
		return
	}
	before := goleak.IgnoreCurrent()
	var own []goleak.Option
	for _, f := range ownFuncs {
		own = append(own, goleak.IgnoreAnyFunction(f))
	}
	tb.Cleanup(func() {
		var err error
		for deadline := time.Now().Add(leakTime); time.Now().Before(deadline); {
			if err = goleak.Find(append(slices.Clip(own), before)...); err == nil {
				return
			}
		}
		tb.Errorf("strict: %v", err)
	})
}

// ownFuncs run in goroutines of what may have been made before the kit, and so
// ends after it: a Redis in memory, a chaos.Proxy, a script.Jobs.
var ownFuncs = []string{
	"github.com/troupehq/troupe/internal/test/memredis.(*conn).serve",
	"github.com/troupehq/troupe/testkit/script.(*Jobs).perform",
	"github.com/troupehq/troupe/testkit/chaos.(*conn).send",
	"github.com/troupehq/troupe/testkit/chaos.(*conn).receive",
	"github.com/troupehq/troupe/testkit/chaos.(*conn).answer",
}

// bubbleTime is how long a kit in a bubble waits at its end, in the bubble's time,
// for those who sleep, like a decider that was overruled: when the test is over
// the time of a bubble stands still.
const bubbleTime = 5 * time.Minute

// inBubble reports whether the caller is in a testing/synctest bubble: the first line
// of its stack names the bubble.
func inBubble() bool {
	buf := make([]byte, 200)
	return header.Match(buf[:runtime.Stack(buf, false)])
}

// header is the first line of the stack of a goroutine in a bubble.
var header = regexp.MustCompile(`^goroutine (\d+) \[([^,\]]*)[^\]]*synctest bubble (\d+)`)

// bubbleGoroutines returns the stacks of the caller's bubble but for its own;
// without those that are about to do something, to end, most of them, unless busy
// is set.
func bubbleGoroutines(busy bool) map[string]string {
	buf := make([]byte, 1<<20)
	n := runtime.Stack(buf, true)
	for ; n == len(buf); n = runtime.Stack(buf, true) {
		buf = make([]byte, 2*len(buf))
	}
	stacks := map[string]string{}
	own := ""
	for i, stack := range strings.Split(strings.TrimSpace(string(buf[:n])), "\n\n") {
		h := header.FindStringSubmatch(stack)
		switch {
		case i == 0 && h == nil:
			return nil
		case i == 0: // the caller's comes first
			own = h[3]
		case h != nil && h[3] == own && (busy || !strings.HasPrefix(h[2], "run")):
			stacks[h[1]] = stack
		}
	}
	return stacks
}
