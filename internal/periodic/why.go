package periodic

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// attendedIn is how long after a tick somebody should have dealt with it: Ruby's pollers look twice
// a minute.
const attendedIn = 45 * time.Second

// Why says why the last tick of e pushed no job, or why its next will push none; "" if all is well.
func (e *Entry) Why(now time.Time) string {
	at := func(t time.Time) string { return t.In(e.line.Location()).Format("2006-01-02 15:04:05 MST") }
	switch {
	case e.Fault != nil:
		return "it cannot be carried out: " + e.Fault.Error()
	case e.Disabled:
		return "it is disabled"
	case e.Next.IsZero():
		return "its line has no tick any more"
	}
	switch last := e.Last; {
	case e.ahead(now):
		return fmt.Sprintf("its tick of %s is done already: some clock was ahead, and it rests until then", at(e.Mark))
	case e.unattended(now):
		return fmt.Sprintf("nobody has dealt with its tick of %s: no daemon leads the scheduler, the line is not read there, or its queue takes no jobs", at(e.waits(now)))
	case now.Sub(e.left(now)) > attendedIn:
		return fmt.Sprintf("its job of the tick of %s has not reached its queue: no daemon leads the scheduler, or the queue takes no jobs", at(e.left(now)))
	case last == nil || !last.At.Equal(e.Mark):
		return "" // Ruby has dealt with it
	case last.What == "missed":
		return fmt.Sprintf("its tick of %s was found %s late, which is too late to push it (missed: skip)", at(last.At), last.Late.Round(time.Second))
	case last.What == "stopped":
		return fmt.Sprintf("client middleware stopped the job of its tick of %s", at(last.At))
	case last.What == overlapped:
		return fmt.Sprintf("its job of an earlier tick waited or ran still at its tick of %s (overlap: skip)", at(last.At))
	case last.What == "disabled":
		return fmt.Sprintf("it was disabled at its tick of %s", at(last.At))
	case last.Missed > 0:
		return fmt.Sprintf("before its tick of %s, %d were missed: no daemon was there", at(last.At), last.Missed)
	}
	return ""
}

// ahead reports whether e has had a tick that is to come: the clock of Redis, or of a process of Ruby, has
// been set back since.
func (e *Entry) ahead(now time.Time) bool { return e.Mark.Sub(now) > time.Minute }

// Stuck reports whether e pushes nothing although it is enabled: it cannot be carried out, or nobody
// deals with its ticks.
func (e *Entry) Stuck(now time.Time) bool {
	return !e.Disabled && (e.Fault != nil || e.unattended(now) || now.Sub(e.left(now)) > attendedIn)
}

// left is the oldest tick whose job is not in its queue yet, on a cluster; now if there is none.
func (e *Entry) left(now time.Time) time.Time {
	for field := range e.fields {
		text, ok := strings.CutPrefix(field, pendingField)
		if seconds, err := strconv.ParseInt(text, 10, 64); ok && err == nil && time.Unix(seconds, 0).Before(now) {
			now = time.Unix(seconds, 0)
		}
	}
	return now
}

// unattended reports whether nobody has dealt with a tick in time.
func (e *Entry) unattended(now time.Time) bool {
	due := e.waits(now)
	return !due.IsZero() && now.Sub(due) > attendedIn
}

// waits is the first tick without a mark.
func (e *Entry) waits(now time.Time) time.Time {
	if e.Mark.IsZero() { // it is not known since when it is there
		return e.line.Prev(now)
	}
	return e.line.Next(e.Mark)
}
