package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/words"
)

const (
	longHeld = time.Hour       // how long a job is held until that is told
	longSlot = 2 * time.Minute // how long a slot of a job that is nowhere goes on until that is told: it is renewed for no more than 45 s, by default
	namedFew = 3               // jobs
)

// shownTo masks the keys of rules.
var shownTo = mask.New(mask.Mask, nil, nil)

// rule is a rule for people, and as commands take it: one whose key is masked is found by its limit.
func (e *exam) rule(r *inspect.LimitRule) (shown, named string) {
	shown = shownTo.Rule(r.Name, r.Key)
	if r.Key != "" && shown != r.Name+":"+r.Key {
		return words.Head(shown), words.Word(r.Name)
	}
	return words.Head(shown), words.Word(shown)
}

// holders are the first few jobs that have slots of a rule.
func holders(r *inspect.LimitRule) string {
	var jids []string
	for _, slot := range r.Slots[:min(len(r.Slots), namedFew)] {
		jids = append(jids, words.Head(slot.JID))
	}
	if r.Taken > int64(len(jids)) {
		jids = append(jids, "…")
	}
	return strings.Join(jids, ", ")
}

// emptySlots looks, where jobs are held for want of a slot, for slots of jobs that are nowhere, and of runs that were given up.
func (e *exam) emptySlots(ctx context.Context, all []*inspect.Limit) error {
	type slot struct {
		rule *inspect.LimitRule
		ends time.Time
	}
	long := map[string]slot{} // by jid
	for _, l := range all {
		for _, r := range l.Rules {
			if l.Allows.Every > 0 || r.Held == 0 {
				continue
			}
			id, named := e.rule(r)
			for _, s := range r.Slots {
				jid, _, given := strings.Cut(s.JID, "~")
				switch {
				case given && jid != "":
					e.find(Warning, "troupe tree shows the stack of a run that does not end; a restart of its process ends it, and troupe limits release "+named+" --reason 'a run does not end' lets jobs in beside it",
						"a run of the job %s was given up and goes on: it has a slot of the limit %s, which holds %s", words.Head(jid), id, words.Plural(r.Held, "job"))
				case time.Until(s.Ends) > longSlot && !given:
					long[s.JID] = slot{r, s.Ends}
				}
			}
		}
	}
	if len(long) == 0 {
		return nil
	}
	stats, err := e.inspector.Stats(ctx)
	if n := stats.Enqueued + stats.ScheduledSize + stats.RetrySize + stats.HeldSize; err == nil && n > mostJobs {
		err = fmt.Errorf("there are %s, too many to search them for those that have slots", words.Plural(n, "job"))
	}
	missing := slices.Sorted(maps.Keys(long))
	for range 2 { // one that is missed once may be on its way
		if err == nil {
			missing, err = e.inspector.Missing(ctx, missing...)
		}
	}
	if err != nil {
		return err
	}
	for _, jid := range missing[:min(len(missing), shownLocks)] {
		s := long[jid]
		id, named := e.rule(s.rule)
		e.find(Warning, "it ends by itself then; until that troupe limits release "+named+" --limit 1 --reason 'a slot has no job' lets a job in beside it",
			"a slot of the limit %s is taken until %s by the job %s, which is nowhere; it holds %s", id, words.At(s.ends), words.Head(jid), words.Plural(s.rule.Held, "job"))
	}
	return nil
}

// limits looks for limits that let nobody in, and for rules whose held jobs do not move.
func (e *exam) limits() error {
	ctx, cancel := context.WithTimeout(e.ctx, searchTime)
	defer cancel()
	all, _, err := e.inspector.Limits(ctx)
	if err != nil {
		return err
	}
	shown := 0
	if err := e.emptySlots(ctx, all); err != nil {
		return err
	}
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
	if r.Held > 0 && !r.Rests.IsZero() {
		id, named := e.rule(r)
		e.find(Note, "troupe jobs list retry tells why its jobs fail, and troupe audit who has it rest; troupe limits rest "+named+" 0 ends the rest", "the limit %s holds %s, and %s: its jobs have failed, or somebody has it rest", id, words.Plural(r.Held, "job"), words.Rests(r.Rests))
		return true
	}
	if r.Held == 0 || r.Oldest.IsZero() || age < longHeld {
		return false
	}
	id, named := e.rule(r)
	if l.Allows.Every == 0 && r.Taken >= int64(l.Allows.AtOnce) {
		e.find(Note, "troupe limits show "+named+" tells who has the slots, and troupe explain what those jobs do", "the limit %s holds %s, the oldest for %s, and all its slots are taken, by %s", id, words.Plural(r.Held, "job"), words.Few(age), holders(r))
		return true
	}
	if l.Allows.Every > 0 && r.Held*int64(l.Allows.Every) > int64(longHeld) {
		e.find(Note, "troupe limits set "+words.Word(l.Name)+" has it allow more", "the limit %s holds %s, the oldest for %s: more jobs come than it allows", id, words.Plural(r.Held, "job"), words.Few(age))
		return true
	}
	e.find(Warning, "start a process that serves the queue and puts jobs into their queues (scheduler), or: troupe limits release "+named+" --reason 'nobody lets them in'",
		"the limit %s holds %s, the oldest for %s, though it has room: nobody lets them in", id, words.Plural(r.Held, "job"), words.Few(age))
	return true
}
