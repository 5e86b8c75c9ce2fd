// Package explain tells where a job is, why, and what happens next.
package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// Explanation is what is known of a job.
type Explanation struct {
	JID      string   `json:"jid"`
	Place    string   `json:"place"` // running, in progress, queue:NAME, held, retry, scheduled, dead, batch for a callback that was not pushed yet, or "" for none
	Why      []Reason `json:"why"`
	Next     string   `json:"next"`
	Timeline []Step   `json:"timeline"`
	Searched []string `json:"searched"` // where it was looked for

	Progress *Progress `json:"progress,omitempty"` // of an iterable job that has begun
	Periodic *Origin   `json:"periodic,omitempty"` // of a job that a periodic job has pushed
	Parent   string    `json:"parent,omitempty"`   // jid of the job with whose ack it was pushed
	Chain    *Chain    `json:"chain,omitempty"`    // of a job that has others behind it
	Lock     *Lock     `json:"lock,omitempty"`     // of a unique job
	Result   *Result   `json:"result,omitempty"`   // of one whose end is kept

	Batch      *Batch `json:"batch,omitempty"`       // of a job of a batch
	CallbackOf *Batch `json:"callback_of,omitempty"` // of a callback

	Record   *inspect.JobRecord   `json:"-"` // the job as it was found; nil if it was not
	Entry    *inspect.SortedEntry `json:"-"` // the same in a set; nil elsewhere
	Position int64                `json:"-"` // in its queue, from 1, the next to be taken; 0 elsewhere
	When     time.Time            `json:"-"` // due, of death, since when it waits or runs
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

// search is one search.
type search struct {
	ctx       context.Context //nolint:containedctx // of one search, as long as that
	rdb       redis.UniversalClient
	i         *inspect.Inspector
	x         Explanation
	fleet     *fleet.Fleet
	processes []fleet.Process
	works     []*inspect.Work
	records   []flight.Record // of this job
	elsewhere []flight.Record // of classes whose jobs are not run where they were taken
	unread    []string        // where not all was looked at
	seen      []Near
}

// Near is where a job was seen. It is looked for there before the sets are searched, which takes
// seconds where there are a million entries.
type Near struct {
	Place string // retry, scheduled, dead or queue:NAME

	Score  float64 // of its entry in a set
	Within float64 // seconds: by how much the score may differ

	Position int64 // in a queue, from 1, the next to be taken
}

// Job explains a job, in words that m masks; nil masks nothing. One that is nowhere has no Place.
// If ctx has a deadline not all may be searched, and what was not is told.
func Job(ctx context.Context, rdb redis.UniversalClient, jid string, m *mask.Masker, near ...Near) (*Explanation, error) {
	f := fleet.New(rdb, m)
	s := &search{ctx: ctx, rdb: rdb, i: f.Inspector, fleet: f, seen: near, x: Explanation{JID: jid, Timeline: []Step{}}}
	var err error
	if s.processes, err = f.Processes(ctx); err == nil {
		err = s.flights()
	}
	// What was taken from a queue before that was searched is found at the second look.
	for _, look := range []func(*search) (bool, error){(*search).progress, (*search).near, (*search).sets, (*search).held, (*search).queues, (*search).progress, (*search).held, (*search).sets} {
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
	if err := s.iterates(); err != nil {
		return nil, err
	}
	if err := s.result(); err != nil {
		return nil, err
	}
	if err := s.limited(); err != nil {
		return nil, err
	}
	s.clocked()
	s.linked()
	if err := s.batched(); err != nil {
		return nil, err
	}
	if err := s.unique(); err != nil {
		return nil, err
	}
	if s.x.Place == "" {
		s.nowhere()
	}
	slices.SortStableFunc(s.x.Timeline, func(a, b Step) int { return a.At.Compare(b.At) })
	return &s.x, nil
}

// note adds a place to a list, once.
func note(list *[]string, place string) {
	if !slices.Contains(*list, place) {
		*list = append(*list, place)
	}
}

// spoilt notes, if that is the error, that a place is a key of a wrong type.
func (s *search) spoilt(place string, err error) bool {
	if !strings.Contains(err.Error(), "WRONGTYPE") {
		return false
	}
	note(&s.unread, place+", which is a key of a wrong type")
	return true
}

func (s *search) because(code, format string, args ...any) {
	s.x.Why = append(s.x.Why, Reason{code, s.fleet.Mask.Text(fmt.Sprintf(format, args...))})
}

// flights reads what the flight recorders have of the job.
func (s *search) flights() error {
	all, err := flight.Since(s.ctx, s.rdb, "", map[string]time.Time{})
	for _, r := range s.fleet.Mask.Records(all) {
		if r.Kind == job.HandedOver.Kind() || r.Kind == job.Left.Kind() {
			s.elsewhere = append(s.elsewhere, r)
		}
		if r.JID == s.x.JID {
			s.records = append(s.records, r)
			s.x.Timeline = append(s.x.Timeline, Step{r.At.UTC(), strings.TrimSuffix(r.Kind+": "+r.Text, ": "), r.Process})
		}
	}
	return err
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

// sent explains that processes do not run the jobs of this class, or not all, and what they do with them,
// as the flight recorders have it.
func (s *search) sent(class string) {
	told := map[string]bool{}
	for _, r := range s.elsewhere {
		if r.Class == class && !told[r.Process+r.Text] {
			told[r.Process+r.Text] = true
			s.because(strings.ReplaceAll(r.Kind, " ", "_"), "Of the class %s, %s at %s, from the queue %s.", words.Head(class), r.Text, words.Head(r.Process), r.Queue)
		}
	}
}

// found notes the job, and adds the times that it tells itself.
func (s *search) found(r *inspect.JobRecord, when time.Time) {
	s.x.Record, s.x.When = r, when
	for _, t := range []struct{ key, event string }{
		{"created_at", "pushed"}, {"enqueued_at", "put into its queue"}, {"failed_at", "failed for the first time"}, {"retried_at", "failed again"},
	} {
		if at, ok := r.Payload.Time(t.key); ok {
			s.x.Timeline = append(s.x.Timeline, Step{at.UTC(), t.event, "payload"})
		}
	}
}

// nowhere explains a job that was not found.
func (s *search) nowhere() {
	last := ""
	if n := len(s.records); n > 0 {
		r := s.records[n-1]
		last = fmt.Sprintf(" The last that is known: %s at %s in %s.", strings.TrimSuffix(r.Kind+": "+r.Text, ": "), words.At(r.At), r.Process)
	}
	switch {
	case s.x.Result != nil:
		s.x.Next = "Nothing."
	case len(s.unread) > 0:
		s.because("not_found", "It was not found, and not all was searched: not %s.%s", strings.Join(s.unread, "; "), last)
		s.x.Next = "It is not known."
	case last == "":
		s.because("unknown", "It neither runs nor waits, and is in no set: it is done, was discarded, or was never pushed.")
		s.x.Next = "Nothing."
	default:
		s.because("gone", "It neither runs nor waits.%s", last)
		s.x.Next = "Nothing: it has ended since, or was taken away by somebody."
		switch s.records[len(s.records)-1].Kind {
		case job.Dropped.Kind():
			s.x.Next = "Nothing: it was dropped."
		case job.Expired.Kind():
			s.x.Next = "Nothing: it was late, and dropped without a run."
		}
	}
}
