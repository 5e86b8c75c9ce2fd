package bulk

import (
	"fmt"
	"strings"

	"github.com/troupehq/troupe/internal/words"
)

// Outcome is what an action on some entries did, with the jids of those that were not acted on.
type Outcome struct {
	Counts
	gone, stopped, left []string
}

// Add adds what became of one entry.
func (o *Outcome) Add(c Counts, jid string) {
	o.Done, o.Gone, o.Stopped, o.Left = o.Done+c.Done, o.Gone+c.Gone, o.Stopped+c.Stopped, o.Left+c.Left
	switch {
	case c.Gone > 0:
		o.gone = append(o.gone, jid)
	case c.Stopped > 0:
		o.stopped = append(o.stopped, jid)
	case c.Left > 0:
		if o.left = append(o.left, jid); o.Fault == "" {
			o.Fault = c.Fault
		}
	}
}

// names are a few of the jobs, in brackets.
func names(jids []string) string {
	const few = 5
	some := jids[:min(len(jids), few)]
	if len(some) == 0 || some[0] == "" {
		return ""
	}
	text := words.Head(strings.Join(some, ", "))
	if len(jids) > few {
		text += ", …"
	}
	return " (" + text + ")"
}

// Tell says what became of the entries; past is what was to be done to them: "retried".
func (o *Outcome) Tell(past string) string {
	var parts []string
	say := func(n int, format string, args ...any) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	say(o.Done, "%s %s.", words.Plural(o.Done, "job"), past)
	say(o.Gone, "%s gone: somebody was faster%s.", words.Count(o.Gone), names(o.gone))
	say(o.Stopped, "%s stopped by client middleware, and no longer in the set%s.", words.Count(o.Stopped), names(o.stopped))
	say(o.Left, "%s left where they were%s%s.", words.Count(o.Left), names(o.left), strings.TrimSuffix(": "+words.Head(o.Fault), ": "))
	if o.Done == 0 {
		parts = append(parts, "Nothing was "+past+".")
	}
	return strings.Join(parts, " ")
}
