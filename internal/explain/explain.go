// Package explain tells where a job is, why, and what happens next.
package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/keys"
)

// Explanation is what is known of a job.
type Explanation struct {
	JID      string   `json:"jid"`
	Place    string   `json:"place"` // running, in progress, queue:NAME, retry, scheduled, dead, or "" for none
	Why      []Reason `json:"why"`
	Next     string   `json:"next"`
	Timeline []Step   `json:"timeline"`
	Searched []string `json:"searched"` // where it was looked for
}

// Reason is why a job is where it is.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Step is something that happened to it.
type Step struct {
	At     time.Time `json:"at"`
	Event  string    `json:"event"`
	Source string    `json:"source"` // the payload, or the process whose flight recorder has it
}

// deepest is how many jobs of the queues are looked at.
const deepest = 200_000

// search is one search.
type search struct {
	ctx       context.Context //nolint:containedctx // of one search, as long as that
	rdb       redis.UniversalClient
	i         *inspect.Inspector
	x         Explanation
	processes []*inspect.Process
	works     []*inspect.Work
	records   []flight.Record // of this job
}

// Job explains a job. One that is nowhere has no Place.
func Job(ctx context.Context, rdb redis.UniversalClient, jid string) (*Explanation, error) {
	s := &search{ctx: ctx, rdb: rdb, i: inspect.New(rdb), x: Explanation{JID: jid}}
	var err error
	if s.processes, err = s.i.Processes(ctx); err == nil {
		s.works, err = s.i.Works(ctx)
	}
	if err == nil {
		err = s.flights()
	}
	for _, look := range []func(*search) (bool, error){(*search).progress, (*search).sets, (*search).queues} {
		found := false
		if err == nil {
			found, err = look(s)
		}
		if err != nil {
			return nil, err
		}
		if found {
			break
		}
	}
	if s.x.Place == "" {
		s.nowhere()
	}
	slices.SortStableFunc(s.x.Timeline, func(a, b Step) int { return a.At.Compare(b.At) })
	return &s.x, nil
}

func (s *search) because(code, format string, args ...any) {
	s.x.Why = append(s.x.Why, Reason{code, fmt.Sprintf(format, args...)})
}

// flights reads what the flight recorders have of the job.
func (s *search) flights() error {
	processes, err := flight.Processes(s.ctx, s.rdb)
	if err != nil {
		return err
	}
	for _, id := range processes {
		records, err := flight.Read(s.ctx, s.rdb, id)
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.JID == s.x.JID {
				s.records = append(s.records, r)
				s.x.Timeline = append(s.x.Timeline, Step{r.At.UTC(), strings.TrimSuffix(r.Kind+": "+r.Text, ": "), id})
			}
		}
	}
	slices.SortStableFunc(s.records, func(a, b flight.Record) int { return a.At.Compare(b.At) })
	return nil
}

// recorded is the last record of a kind; nil if there is none.
func (s *search) recorded(kind string) *flight.Record {
	for i, r := range slices.Backward(s.records) {
		if r.Kind == kind {
			return &s.records[i]
		}
	}
	return nil
}

// payload adds the times that the job itself tells.
func (s *search) payload(r *inspect.JobRecord) {
	for _, t := range []struct{ key, event string }{
		{"created_at", "pushed"}, {"enqueued_at", "put into its queue"}, {"failed_at", "failed for the first time"}, {"retried_at", "failed again"},
	} {
		if at, ok := r.Payload.Time(t.key); ok {
			s.x.Timeline = append(s.x.Timeline, Step{at.UTC(), t.event, "payload"})
		}
	}
}

// progress looks among the jobs that run, and those that processes of troupe have taken.
func (s *search) progress() (bool, error) {
	s.x.Searched = append(s.x.Searched, "running", "in progress")
	for _, w := range s.works {
		if w.Job.JID == s.x.JID {
			s.payload(&w.Job)
			return true, s.running(w)
		}
	}
	for claim, err := range s.i.Claims(s.ctx) {
		if err != nil {
			return false, err
		}
		for job, err := range claim.Each(s.ctx) {
			if err != nil {
				return false, err
			}
			if job.JID == s.x.JID {
				s.payload(job)
				s.taken(claim)
				return true, nil
			}
		}
	}
	return false, nil
}

func (s *search) running(w *inspect.Work) error {
	s.x.Place = "running"
	s.because("running", "It runs in %s since %s.", w.Process, brief(time.Since(w.RunAt)))
	s.x.Next = "When it ends, its outcome decides."
	for claim, err := range s.i.Claims(s.ctx) {
		if err != nil {
			return err
		}
		if !claim.Suspect {
			continue
		}
		for job, err := range claim.Each(s.ctx) {
			if err != nil {
				return err
			}
			if job.JID == s.x.JID {
				s.because("isolated", "It is a suspect: its process has died under it before. It runs alone in this process, which begins no other job meanwhile.")
				s.x.Next = "If it ends it is cleared. If the process dies again, the job goes to the dead set."
			}
		}
	}
	if c := s.recorded(flight.JobCancelled); c != nil && c.At.After(w.RunAt.Add(-time.Second)) {
		s.because("cancelled", "Its context was cancelled %s ago. %s", brief(time.Since(c.At)), c.Text)
	}
	tree, err := s.tree(w.Process)
	if err != nil {
		return err
	}
	for _, n := range tree {
		for _, u := range n.Unresponsive {
			if u.JID == s.x.JID {
				slot := "It keeps its slot."
				if u.Replaced {
					slot = "Its slot is another job's."
				}
				s.because("unresponsive", "Its context was cancelled %s ago (%s), and it does not end. %s Its goroutine: %s", brief(time.Since(u.Since)), u.Cause, slot, firstLine(u.Stack))
				s.x.Next = "It goes on until its handler returns, or the process ends. troupe dump " + w.Process + " shows all stacks."
			}
		}
	}
	return nil
}

// tree is what a process has published; nil of one without.
func (s *search) tree(process string) (t actors.Tree, err error) {
	text, err := s.i.Tree(s.ctx, process)
	if errors.Is(err, inspect.ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	return t, err
}

// taken explains a job that a process has fetched and that does not run.
func (s *search) taken(c *inspect.Claim) {
	s.x.Place = "in progress"
	f := c.Fetcher
	if f.Alive {
		s.because("fetched", "%s has taken it from the queue %s, and it waits for a processor, or has ended and waits to be settled.", f.Process, c.Queue)
		s.x.Next = "It begins when a processor is free, or goes back to its queue."
		return
	}
	s.because("owner_dead", "%s has died with it: its lease is over.", f.Process)
	s.x.Next = "A rescuer puts it back into the queue " + c.Queue + " within a minute."
	if !slices.ContainsFunc(s.processes, func(p *inspect.Process) bool { t, err := s.tree(p.Identity); return err == nil && t != nil }) {
		s.x.Next = "No process of troupe lives that puts it back: start one, or run troupe rescue."
	}
}

// sets looks into the sorted sets.
func (s *search) sets() (bool, error) {
	for _, set := range []struct {
		name string
		in   *inspect.JobSet
		why  func(*search, *inspect.SortedEntry)
	}{{"retry", s.i.RetrySet, (*search).retry}, {"scheduled", s.i.ScheduledSet, (*search).scheduled}, {"dead", s.i.DeadSet, (*search).dead}} {
		s.x.Searched = append(s.x.Searched, set.name)
		e, err := set.in.FindJob(s.ctx, s.x.JID)
		if errors.Is(err, inspect.ErrNotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		s.x.Place = set.name
		s.payload(&e.JobRecord)
		set.why(s, e)
		return true, nil
	}
	return false, nil
}

func (s *search) retry(e *inspect.SortedEntry) {
	sum := e.Summary()
	s.because("retry", "It has failed %d times, at last with %s.", e.Payload.Failures(), firstLine(strings.TrimSuffix(sum.ErrorClass+": "+sum.ErrorMessage, ": ")))
	if c := s.recorded(flight.JobCancelled); c != nil {
		s.because("cancelled", "An operator has cancelled it at %s.", at(c.At))
	}
	s.x.Next = s.promoted(e, "its next attempt")
}

func (s *search) scheduled(e *inspect.SortedEntry) {
	s.because("scheduled", "It was pushed for %s.", at(e.At))
	if p := s.recorded(flight.JobParked); p != nil {
		s.because("parked", "Its handler has put it off at %s: %s.", at(p.At), p.Text)
	}
	s.x.Next = s.promoted(e, "its run")
}

// promoted is when an entry goes into its queue.
func (s *search) promoted(e *inspect.SortedEntry, what string) string {
	if len(s.processes) == 0 {
		s.because("no_process", "No process runs that puts jobs into their queues when they are due.")
		return "Nothing, until a process is started."
	}
	if late := time.Since(e.At); late > time.Minute {
		s.because("overdue", "It is overdue by %s.", brief(late))
	}
	return fmt.Sprintf("At %s it goes into the queue %s for %s.", at(e.At), cmp.Or(e.Queue, "default"), what)
}

func (s *search) dead(e *inspect.SortedEntry) {
	sum := e.Summary()
	text := firstLine(strings.TrimSuffix(sum.ErrorClass+": "+sum.ErrorMessage, ": "))
	switch sum.ErrorClass {
	case "Troupe::PoisonPill":
		s.because("poison", "It is dead since %s as a poison pill: %s.", at(e.At), text)
	case "troupe.DeadlineError":
		s.because("deadline", "It is dead since %s: %s.", at(e.At), text)
	case "":
		s.because("killed", "It is dead since %s and has no error: it was killed by hand.", at(e.At))
	default:
		s.because("dead", "It is dead since %s after %d failures, at last with %s.", at(e.At), e.Payload.Failures(), text)
	}
	s.x.Next = "Nothing by itself. troupe jobs retry dead " + s.x.JID + " puts it back; it is dropped after 180 days, or when 10,000 others have died, unless the daemon is configured otherwise."
}

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
			if err != nil {
				return false, err
			}
			if looked++; job.JID == s.x.JID {
				s.x.Searched = append(s.x.Searched, "queue:"+q.Name)
				s.payload(&job.JobRecord)
				s.queued(q, max(1, q.Size-looked+1))
				return true, nil
			}
			if left--; left <= 0 {
				s.x.Searched = append(s.x.Searched, fmt.Sprintf("queue:%s (%d of %d)", q.Name, looked, q.Size))
				return false, nil
			}
		}
		s.x.Searched = append(s.x.Searched, "queue:"+q.Name)
	}
	return false, nil
}

// queued explains why a job waits at a position of its queue, from the end that is taken from.
func (s *search) queued(q inspect.QueueSummary, position int64) {
	s.x.Place = "queue:" + q.Name
	name, suspect := strings.CutSuffix(q.Name, keys.SuspectsSuffix)
	var listening, quiet, busy int
	var longest time.Time
	for _, p := range s.processes {
		switch {
		case !slices.Contains(p.Queues, name):
		case p.Stopping:
			quiet++
		default:
			listening++
			if p.Busy >= p.Concurrency {
				busy++
			}
			for _, w := range s.works {
				if w.Process == p.Identity && (longest.IsZero() || w.RunAt.Before(longest)) {
					longest = w.RunAt
				}
			}
		}
	}
	s.x.Next = fmt.Sprintf("It is taken when the %d before it are.", position-1)
	switch {
	case suspect:
		s.because("suspect", "It is a suspect: its process has died under it. It waits to run alone.")
		s.x.Next = "A process of troupe that listens on the queue " + name + " runs it alone, one suspect at a time."
		if listening == 0 {
			s.because("nobody_listens", "No process listens on the queue %s.", name)
		}
	case q.Paused:
		s.because("paused", "The queue %s is paused.", name)
		s.x.Next = "Nothing, until troupe queues unpause " + name + "."
	case listening == 0 && quiet > 0:
		s.because("all_quiet", "All %d processes that listen on the queue %s are quiet.", quiet, name)
		s.x.Next = "Nothing, until a process is started that listens on it."
	case listening == 0:
		s.because("nobody_listens", "No process listens on the queue %s.", name)
		s.x.Next = "Nothing, until a process is started that listens on it, or one is configured to: troupe configure."
	case busy == listening:
		s.because("all_busy", "All %d processes that listen on the queue %s are busy; the longest job runs for %s.", listening, name, brief(time.Since(longest)))
	default:
		s.because("waiting", "It waits for its turn; %d processes listen on the queue %s.", listening, name)
	}
	if !suspect {
		s.because("position", "It is number %d of %d.", position, q.Size)
	}
}

// nowhere explains a job that was not found.
func (s *search) nowhere() {
	if len(s.records) == 0 {
		s.because("unknown", "It neither runs nor waits, and is in no set: it is done, was discarded, or was never pushed.")
		s.x.Next = "Nothing."
		return
	}
	last := s.records[len(s.records)-1]
	s.because("gone", "It neither runs nor waits. The last that is known: %s at %s in %s.", strings.TrimSuffix(last.Kind+": "+last.Text, ": "), at(last.At), last.Process)
	s.x.Next = "Nothing: it has ended since, or was taken away by somebody."
}

func at(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func brief(d time.Duration) string { return max(d, 0).Round(time.Second).String() }

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
