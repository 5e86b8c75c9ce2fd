package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/words"
)

// sets looks into the sorted sets, each for half of the time that is left, if that is bounded.
func (s *search) sets() (bool, error) {
	for _, name := range setNames {
		if slices.Contains(s.unread, noTime(name)) {
			continue
		}
		note(&s.x.Searched, name)
		ctx, cancel := s.half()
		e, err := s.setOf(name).FindJob(ctx, s.x.JID)
		slow, ok := errors.AsType[net.Error](err) // the driver's, which may notice before ctx ends
		_, bounded := s.ctx.Deadline()
		late := bounded && err != nil && (ctx.Err() != nil || ok && slow.Timeout())
		cancel()
		if late && s.ctx.Err() == nil {
			note(&s.unread, noTime(name))
			continue
		}
		if err != nil && (errors.Is(err, inspect.ErrNotFound) || s.spoilt(name, err)) {
			continue
		}
		if err != nil {
			return false, err
		}
		s.inSet(name, e)
		return true, nil
	}
	return false, nil
}

func noTime(set string) string { return "all of " + set + ", for which there was no time" }

// half is the context of the search for half of the time that is left.
func (s *search) half() (context.Context, context.CancelFunc) {
	end, ok := s.ctx.Deadline()
	if !ok {
		return s.ctx, func() {}
	}
	return context.WithTimeout(s.ctx, time.Until(end)/2)
}

var setNames = []string{"retry", "scheduled", "dead"}

func (s *search) setOf(name string) *inspect.JobSet {
	return map[string]*inspect.JobSet{"retry": s.i.RetrySet, "scheduled": s.i.ScheduledSet, "dead": s.i.DeadSet}[name]
}

func (s *search) inSet(name string, e *inspect.SortedEntry) {
	s.x.Place, s.x.Entry = name, e
	s.found(&e.JobRecord, e.At)
	map[string]func(*search, *inspect.SortedEntry){"retry": (*search).retry, "scheduled": (*search).scheduled, "dead": (*search).dead}[name](s, e)
}

// mostNear is how many entries are looked at where the job was seen.
const mostNear = 5000

// near looks where the job was seen.
func (s *search) near() (bool, error) {
	for _, at := range s.seen {
		if name, ok := strings.CutPrefix(at.Place, "queue:"); ok {
			if found, err := s.nearInQueue(name, at.Position); found || err != nil {
				return found, err
			}
			continue
		}
		set, n := s.setOf(at.Place), 0
		if set == nil {
			continue
		}
		for e, err := range set.Fetch(s.ctx, at.Score-at.Within, at.Score+at.Within, "") {
			if n++; err != nil || n > mostNear {
				break // the search of all tells what is wrong
			}
			if e.JID == s.x.JID {
				note(&s.x.Searched, at.Place)
				s.inSet(at.Place, e)
				return true, nil
			}
		}
	}
	return false, nil
}

// mostBefore is how many positions a job may have moved forward in its queue since it was seen.
const mostBefore = 1000

// nearInQueue looks at a position of a queue, and then at those before it, since others have been
// taken from it.
func (s *search) nearInQueue(name string, position int64) (bool, error) {
	q := s.i.Queue(name)
	for _, before := range []int64{0, mostBefore} {
		at := max(0, position-1-before)
		for job, err := range q.OldestAfter(s.ctx, int(at)) {
			if err != nil || at >= position {
				break // the search of all tells what is wrong
			}
			if at++; job.JID != s.x.JID {
				continue
			}
			summary, err := q.Summary(s.ctx)
			if err != nil {
				return false, err
			}
			note(&s.x.Searched, "queue:"+name)
			s.found(&job.JobRecord, since(&job.JobRecord))
			s.queued(summary, at)
			return true, nil
		}
	}
	return false, nil
}

func (s *search) retry(e *inspect.SortedEntry) {
	s.because("retry", "It has failed %s, at last with %s.", words.Plural(e.Payload.Failures(), "time"), failure(e))
	s.expires(e.Payload)
	if c := s.recorded(job.Cancelled.Kind()); c != nil {
		s.because("cancelled", "An operator has cancelled it at %s.", words.At(c.At))
	}
	s.x.Next = s.promoted(e, "its next attempt")
}

func (s *search) scheduled(e *inspect.SortedEntry) {
	s.because("scheduled", "It was pushed for %s.", due(e))
	s.expires(e.Payload)
	if p := s.recorded(job.Parked.Kind()); p != nil {
		s.because("parked", "Its handler has put it off at %s: %s.", words.At(p.At), p.Text)
	}
	s.x.Next = s.promoted(e, "its run")
}

// expires explains that no run of the job starts after some time, if it says so itself.
func (s *search) expires(p *troupe.Payload) {
	_, final := p.Get("t_deadline")
	if _, inQueue := p.Get("enqueued_at"); !final && !inQueue {
		return // expires_in counts from when it is due
	}
	at, drop := job.Expiry(p, nil)
	then := "goes to the dead set, unless its class has such jobs dropped"
	if drop {
		then = "is dropped"
	}
	switch {
	case at.IsZero():
	case time.Now().After(at):
		s.because("expired", "It has expired at %s: when its turn comes it is not run and %s.", words.At(at), then)
	default:
		s.because("expires", "It expires at %s: if no run has started by then it %s.", words.At(at), then)
	}
}

// nobody reports whether no process lives.
func (s *search) nobody() bool {
	return !slices.ContainsFunc(s.processes, func(p fleet.Process) bool { return p.Phase != fleet.Gone })
}

// promoted is when an entry goes into its queue.
func (s *search) promoted(e *inspect.SortedEntry, what string) string {
	if s.nobody() {
		s.because("no_process", "No process runs that puts jobs into their queues when they are due.")
		return "Nothing, until a process is started."
	}
	if e.At.IsZero() && e.Score > 0 {
		s.because("far", "It is not due before the year 10000: perhaps its score are milliseconds, and scores are seconds.")
		return "Nothing, until somebody gives it another time: troupe jobs reschedule " + s.x.Place + " " + words.Word(s.x.JID) + " --at 1h."
	}
	if e.At.IsZero() {
		s.because("overdue", "It is overdue: its time is %s.", due(e))
		return fmt.Sprintf("It goes into the queue %s for %s.", cmp.Or(e.Queue, "default"), what)
	}
	if late := time.Since(e.At); late > time.Minute {
		s.because("overdue", "It is overdue by %s.", words.Few(late))
	}
	return fmt.Sprintf("At %s it goes into the queue %s for %s.", due(e), cmp.Or(e.Queue, "default"), what)
}

func (s *search) dead(e *inspect.SortedEntry) {
	text := failure(e)
	switch e.Summary().ErrorClass {
	case "Troupe::PoisonPill":
		s.because("poison", "It is dead since %s as a poison pill: %s.", due(e), text)
	case "troupe.ExpiredError", "troupe.DeadlineError": // the former name
		s.because("deadline", "It is dead since %s: %s.", due(e), text)
	case "":
		s.because("killed", "It is dead since %s and has no error: it was killed by hand.", due(e))
	default:
		s.because("dead", "It is dead since %s after %s, at last with %s.", due(e), words.Plural(e.Payload.Failures(), "failure"), text)
	}
	s.x.Next = "Nothing by itself. troupe jobs retry dead " + words.Word(s.x.JID) + " puts it back; it is dropped after " + words.Days(limits.DeadTimeout) + ", or when " + words.Count(limits.DeadMax) + " others have died, unless the daemon is configured otherwise."
}

// due is the time of an entry.
func due(e *inspect.SortedEntry) string {
	if e.At.IsZero() {
		return "the " + scores.Words(e.Score)
	}
	return words.At(e.At)
}

// failure is the last one of an entry, without a full stop.
func failure(e *inspect.SortedEntry) string {
	sum := e.Summary()
	return cmp.Or(strings.TrimSuffix(words.FirstLine(strings.TrimSuffix(sum.ErrorClass+": "+sum.ErrorMessage, ": "), words.MaxHead), "."), "an error that is not told")
}

// deepest is how many jobs of the queues are looked at.
const deepest = 200_000

// queues looks through the queues, as far as deepest.
func (s *search) queues() (bool, error) {
	all, err := s.i.Queues(s.ctx)
	if err != nil {
		return false, err
	}
	left := int64(deepest)
	for _, q := range all {
		looked := int64(0)
		for job, err := range q.Each(s.ctx) {
			if err != nil && s.spoilt("queue:"+q.Name, err) {
				break
			}
			if err != nil {
				return false, err
			}
			if looked++; job.JID == s.x.JID {
				note(&s.x.Searched, "queue:"+q.Name)
				s.found(&job.JobRecord, since(&job.JobRecord))
				s.queued(q, max(1, q.Size-looked+1))
				return true, nil
			}
			if left--; left <= 0 {
				note(&s.unread, fmt.Sprintf("queue:%s (%s of %s), and the queues after it", q.Name, words.Count(looked), words.Count(q.Size)))
				note(&s.x.Searched, fmt.Sprintf("queue:%s (%s of %s)", q.Name, words.Count(looked), words.Count(q.Size)))
				return false, nil
			}
		}
		note(&s.x.Searched, "queue:"+q.Name)
	}
	return false, nil
}

// queued explains why a job waits at a position of its queue, from the end that is taken from.
func (s *search) queued(q inspect.QueueSummary, position int64) {
	s.x.Place, s.x.Position = "queue:"+q.Name, position
	if m := s.recorded(job.Moved.Kind()); m != nil {
		s.because("moved", "Its handler has moved it %s at %s.", m.Text, words.At(m.At))
	}
	if s.x.Record != nil {
		s.sent(s.x.Record.Summary().Class)
		s.expires(s.x.Record.Payload)
	}
	name, suspect := strings.CutSuffix(q.Name, keys.SuspectsSuffix)
	var listening, quiet, busy int
	var longest time.Time
	for _, p := range s.processes {
		switch {
		case !p.Takes(name):
		case p.Phase == fleet.Quiet || p.Phase == fleet.Stopping:
			quiet++
		case p.Listens():
			listening++
			if p.Busy >= p.Slots {
				busy++
			}
			for _, w := range s.works {
				if w.Process == p.Identity && (longest.IsZero() || w.RunAt.Before(longest)) {
					longest = w.RunAt
				}
			}
		}
	}
	s.x.Next = "It is taken next."
	if position > 1 {
		s.x.Next = fmt.Sprintf("It is taken after the %s before it.", words.Count(position-1))
	}
	switch {
	case suspect:
		s.because("suspect", "It is a suspect: its process has died under it. It waits to run alone.")
		s.x.Next = "A process of troupe that listens on the queue " + name + " runs it alone, one suspect at a time."
		if listening == 0 {
			s.because("nobody_listens", "No process listens on the queue %s.", name)
		}
	case q.Paused:
		s.because("paused", "The queue %s is paused.", name)
		s.x.Next = "Nothing, until it is unpaused: troupe queues unpause " + words.Word(name) + "."
		if listening == 0 {
			s.because("nobody_listens", "No process listens on the queue %s, either.", name)
			s.x.Next = "Nothing, until it is unpaused, troupe queues unpause " + words.Word(name) + ", and a process listens on it."
		}
	case listening == 0 && quiet > 0:
		s.because("all_quiet", "All processes that listen on the queue %s are quiet: %d.", name, quiet)
		s.x.Next = "Nothing, until a process is started that listens on it."
	case s.nobody():
		s.because("nobody_listens", "No process listens on the queue %s: none runs.", name)
		s.x.Next = "Nothing, until a process is started that listens on it."
	case listening == 0:
		s.because("nobody_listens", "No process listens on the queue %s.", name)
		s.x.Next = "Nothing, until a process listens on it: " + words.TakeFrom(words.Word(name)) + "."
	case busy == listening:
		s.because("all_busy", "All processes that listen on the queue %s are busy: %d. The longest job runs for %s.", name, listening, words.Few(time.Since(longest)))
	default:
		s.because("waiting", "It waits for its turn in the queue %s, on which %s.", name, listen(listening))
	}
	if !suspect {
		s.because("position", "It is number %s of %s.", words.Count(position), words.Count(q.Size))
	}
}

func listen(processes int) string {
	if processes == 1 {
		return "1 process listens"
	}
	return words.Plural(processes, "process") + " listen"
}

// since is when a job was put into its queue.
func since(r *inspect.JobRecord) time.Time {
	sum := r.Summary()
	if sum.EnqueuedAt.IsZero() {
		return sum.CreatedAt
	}
	return sum.EnqueuedAt
}
