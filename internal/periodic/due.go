package periodic

import (
	"slices"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
)

const (
	grace   = time.Minute // how late a tick is that MissedSkip still pushes, as in Ruby
	counted = 10_000      // missed ticks are counted so far
)

// firing is a tick that is to be marked.
type firing struct {
	tick   time.Time
	what   string // pushed, or why nothing is pushed: missed, disabled, repeated, stopped
	missed int    // ticks before it that nothing is pushed for, either

	job, jid, queue string // once it was made
	message         string // of the entry then
	lock            *job.Lock
}

// due are the ticks of e that have come by now and are to be marked, in their order: those after its
// cursor. Ticks before the one that is marked last need no mark.
func (e *Entry) due(now time.Time) []*firing {
	last := e.line.Prev(now)
	if last.IsZero() || !last.After(e.cursor()) {
		return nil
	}
	if e.Mark.IsZero() { // nobody knows what it has had: it begins now
		return []*firing{{tick: last, what: "missed"}}
	}
	f := &firing{tick: last, what: "pushed"}
	list := []*firing{f}
	switch {
	case e.Disabled:
		f.what = "disabled"
		return list
	case e.Missed == troupe.MissedAll:
		t := e.before(last)
		for ; t.After(e.cursor()) && len(list) < e.MissedMax; t = e.before(t) {
			list = append(list, &firing{tick: t, what: "pushed"})
		}
		slices.Reverse(list)
		list[0].missed = e.count(t)
	case e.Missed == troupe.MissedSkip && now.Sub(last) > grace:
		f.what = "missed"
		fallthrough
	default:
		f.missed = e.count(e.before(last))
	}
	for _, f := range list {
		if !e.line.Pushes(f.tick) {
			f.what = "repeated"
		}
	}
	return list
}

// cursor is the tick up to which e is done with. Where each tick is to have a job, a mark that Ruby has
// set says nothing of the ticks before it.
func (e *Entry) cursor() time.Time {
	if e.Missed == troupe.MissedAll && e.Last != nil && e.Last.At.Before(e.Mark) {
		return e.Last.At
	}
	return e.Mark
}

func (e *Entry) before(tick time.Time) time.Time { return e.line.Prev(tick.Add(-time.Second)) }

// count counts the ticks after the cursor up to tick.
func (e *Entry) count(tick time.Time) (n int) {
	for ; tick.After(e.cursor()) && n < counted; tick = e.before(tick) {
		n++
	}
	return n
}
