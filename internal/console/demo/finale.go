package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/words"
)

// finale is what is said at the end.
type finale struct {
	last     snapshot // after the stop
	length   time.Duration
	report   actors.DrainReport
	restarts int // of the tree while it ran
	embedded bool
	counted  bool // last.Counts are of after the stop
}

// text is the end in words: what was done, the drain report, what stays behind.
func (f finale) text() string {
	s := f.last
	var b strings.Builder
	fmt.Fprintf(&b, "the demo ran %s: pushed %s, processed %s, failed %s, retried %s, restarts %s\n",
		words.Few(f.length), words.Count(s.Pushed), words.Count(s.Stats.Processed), words.Count(s.Stats.Failed), words.Count(s.Retried), words.Count(f.restarts))
	b.WriteString(f.report.String())
	if len(f.report.Abandoned) > 0 {
		fmt.Fprintf(&b, "%s ignores its cancelled context on purpose: it was requeued at the deadline, then given up.\n", unresponsive{}.Class())
	}
	switch {
	case f.embedded:
		b.WriteString("the embedded redis ends with this process.\n")
	case !f.counted:
		fmt.Fprintf(&b, "redis does not answer; jobs of the demo may stay in the queues %s.\n", strings.Join(queues, ", "))
	case s.Counts.Enqueued > 0:
		fmt.Fprintf(&b, "left in the queues %s: %s, and what is in the schedule, retry and dead sets; the next demo goes on with them.\n",
			strings.Join(queues, ", "), words.Count(s.Counts.Enqueued))
	}
	return b.String()
}
