package doctor

import (
	"context"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/words"
)

// longHeld is how long a job is held until that is told.
const longHeld = time.Hour

// limits looks for limits that let nobody in, and for rules whose held jobs do not move.
func (e *exam) limits() error {
	ctx, cancel := context.WithTimeout(e.ctx, searchTime)
	defer cancel()
	all, _, err := e.inspector.Limits(ctx)
	if err != nil {
		return err
	}
	shown := 0
	for _, l := range all {
		held, name := l.Held(), words.Word(l.Name)
		holds := words.Head(l.Name) + " holds " + words.Plural(held, "job")
		switch {
		case held == 0:
		case !l.Allows.Defined():
			e.find(Danger, "start a process whose configuration has it, or: troupe limits set "+name+" 1 --reason 'it is not defined'", "the limit %s, and is not defined: nobody is let in", holds)
		case l.Allows.AtOnce == 0 && l.Allows.Every == 0:
			e.find(Warning, "troupe limits set "+name+" or troupe limits reset "+name+" has it let jobs in", "the limit %s, and allows 0 at once: nobody is let in", holds)
		default:
			for _, r := range l.Rules {
				if shown < shownLocks && e.stuck(l, r) {
					shown++
				}
			}
		}
	}
	return nil
}

// stuck tells of a rule whose oldest job is held for long.
func (e *exam) stuck(l *inspect.Limit, r *inspect.LimitRule) bool {
	age := time.Since(r.Oldest)
	if r.Held == 0 || r.Oldest.IsZero() || age < longHeld {
		return false
	}
	id := words.Head(r.ID)
	if l.Allows.Every == 0 && r.Taken >= int64(l.Allows.AtOnce) {
		e.find(Note, "troupe limits show "+words.Word(r.ID)+" tells who has the slots, and troupe explain what those jobs do", "the limit %s holds %s, the oldest for %s, and all its slots are taken", id, words.Plural(r.Held, "job"), words.Few(age))
		return true
	}
	if l.Allows.Every > 0 && r.Held*int64(l.Allows.Every) > int64(longHeld) {
		e.find(Note, "troupe limits set "+words.Word(l.Name)+" has it allow more", "the limit %s holds %s, the oldest for %s: more jobs come than it allows", id, words.Plural(r.Held, "job"), words.Few(age))
		return true
	}
	e.find(Warning, "start a process that serves the queue and puts jobs into their queues (scheduler), or: troupe limits release "+words.Word(r.ID)+" --reason 'nobody lets them in'",
		"the limit %s holds %s, the oldest for %s, though it has room: nobody lets them in", id, words.Plural(r.Held, "job"), words.Few(age))
	return true
}
