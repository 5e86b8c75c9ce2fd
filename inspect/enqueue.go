package inspect

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

func (e *SortedEntry) enqueue(ctx context.Context, verb string, retry bool) (Outcome, error) {
	all, err := e.whole(ctx)
	if err != nil || all == nil {
		return Gone, e.Set.wrap(verb, err)
	}
	if all != e {
		outcome, err := all.enqueue(ctx, verb, retry)
		e.gone.Store(all.gone.Load())
		return outcome, err
	}
	p, err := e.prepare(ctx, time.Now(), retry)
	if err != nil {
		return Gone, e.Set.wrap(verb, err)
	}
	if p == nil {
		outcome, err := e.Delete(ctx)
		if outcome == Done {
			outcome = Stopped
		}
		return outcome, err
	}
	lists := e.Set.list(nil, e, p)
	if err := e.Set.enqueue(ctx, lists); err != nil {
		return Gone, e.Set.wrap(verb, err)
	}
	switch l := &lists[0]; {
	case l.fault != nil:
		return Gone, e.Set.wrap(verb, l.fault)
	case len(l.held) > 0:
		return Gone, e.Set.wrap(verb, l.held[0])
	default:
		return outcomeOf(l.there[0]), nil
	}
}

// list is what goes into one queue in one step.
type list struct {
	queue    string
	entries  []*SortedEntry
	payloads [][]byte
	locks    []*job.Lock // that they take; nil for none

	// the answer
	there []bool  // per entry: moved, unless there is a fault; else gone
	held  []error // of those that are not among the entries any more: other jobs hold their locks
	fault error   // of the list, which took nothing
}

// list adds an entry to the list of its queue.
func (s *JobSet) list(lists []list, e *SortedEntry, p *troupe.Payload) []list {
	at := slices.IndexFunc(lists, func(l list) bool { return l.queue == p.Queue() })
	if at < 0 {
		at = len(lists)
		lists = append(lists, list{queue: p.Queue()})
	}
	l := &lists[at]
	l.entries, l.payloads, l.locks = append(l.entries, e), append(l.payloads, p.Bytes()), append(l.locks, s.taken(p))
	return lists
}

// enqueue moves entries of the set into their queues in one step.
func (s *JobSet) enqueue(ctx context.Context, lists []list) error {
	if redisconn.OnCluster(s.in().db()) {
		return s.enqueueOnCluster(ctx, lists)
	}
	names, taken := []string{s.Name, keys.Queues}, []string(nil)
	args, jobs, entries := []any{len(lists)}, []any(nil), 0
	for _, l := range lists {
		names = append(names, keys.Queue(l.queue))
		jobs = append(jobs, l.queue, len(l.entries))
		for i, e := range l.entries {
			jobs = append(jobs, e.Raw, l.payloads[i])
			if entries++; l.locks[i] != nil {
				taken = append(taken, l.locks[i].Key)
				args = append(args, entries, l.locks[i].JID, l.locks[i].For.Milliseconds())
			}
		}
	}
	reply, err := enqueueScript.Run(ctx, s.in().db(), append(names, taken...), append(args, jobs...)...).StringSlice()
	if err == nil && len(reply) < 2*len(lists) {
		err = fmt.Errorf("got %d values, want %d", len(reply), 2*len(lists))
	}
	if err != nil {
		return err
	}
	holders := reply[2*len(lists):]
	for i := range lists {
		l := &lists[i]
		if err = l.settle(reply[2*i], &holders); err != nil {
			return err
		}
		if fault := reply[2*i+1]; fault != "" {
			l.fault = fmt.Errorf("queue %s: %w", l.queue, redisconn.Reply(fault))
			continue
		}
		gone(l.entries)
	}
	return nil
}

// gone marks entries that are no longer in their set.
func gone(entries []*SortedEntry) {
	for _, e := range entries {
		e.gone.Store(true)
	}
}

// records are the jobs of entries.
func records(entries []*SortedEntry) []*JobRecord {
	jobs := make([]*JobRecord, len(entries))
	for i, e := range entries {
		jobs[i] = &e.JobRecord
	}
	return jobs
}

func flags(digits string, n int) ([]bool, error) {
	if len(digits) != n || strings.Trim(digits, "01") != "" {
		return nil, fmt.Errorf("got %q, want %d flags", digits, n)
	}
	out := make([]bool, n)
	for i := range out {
		out[i] = digits[i] == '1'
	}
	return out, nil
}
