package inspect

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/script"
)

//go:embed enqueue.lua
var enqueueSource string

//go:embed kill.lua
var killSource string

var (
	enqueueScript = script.New("inspect.enqueue", enqueueSource)
	killScript    = script.New("inspect.kill", script.Bound+script.Unlock+killSource)
)

// SortedEntry is a job in a sorted set. Its operations name it by its bytes,
// each one atomic step: see Outcome.
type SortedEntry struct {
	JobRecord
	Set   *JobSet   // that the entry was found in
	Score float64   // the exact score
	At    time.Time // the score as a time, exact to the microsecond; zero if it is none before the year 10000
	Held  *HeldBy   // of a job that a limit holds; its score is its enqueued_at

	gone atomic.Bool // as far as we know
}

func (s *JobSet) entry(t text, score float64) *SortedEntry {
	e := &SortedEntry{Set: s, Score: score}
	if s.rule != nil {
		e.JobRecord, e.Held = s.rule.record(t)
	} else {
		e.JobRecord = recordOf(t, "")
	}
	switch {
	case score < millis:
		e.At = timeOf(scores.Format(score))
	case score < year10000:
		e.At = time.Unix(int64(score), 0).UTC()
	}
	return e
}

// Overdue is for how long it has been due at a time: since 1970 at most, whatever its score is.
func (e *SortedEntry) Overdue(now time.Time) time.Duration {
	switch since := now.Sub(time.Unix(0, 0)); {
	case e.Score <= 0:
		return since
	case e.At.IsZero(): // never, to speak of
		return 0
	default:
		return max(0, now.Sub(e.At))
	}
}

// A score of milliseconds, mostly by mistake, is due in tens of thousands of years: scores are
// seconds, in every version of Sidekiq.
const (
	millis    = 1e11 // from here on timestamps in payloads are milliseconds
	year10000 = 253402300800
)

// Key returns SCORE-JID, the name of the entry in the addresses of Sidekiq's
// pages and for JobSet.Lookup. Entries without a jid that share a score share
// their key.
func (e *SortedEntry) Key() string { return scores.Format(e.Score) + "-" + e.JID }

// Delete removes the entry, and frees the lock of a unique job.
func (e *SortedEntry) Delete(ctx context.Context) (Outcome, error) {
	if e.Set == nil {
		return Gone, errNotMade
	}
	there := []bool{false}
	all, err := e.whole(ctx)
	if err == nil && all != nil {
		there, err = e.Set.remove(ctx, []*SortedEntry{all})
	}
	if err != nil {
		return Gone, e.Set.wrap("delete an entry", err)
	}
	e.gone.Store(true)
	return outcomeOf(there[0]), nil
}

// Reschedule gives the entry another time, 1970 or later. Its bytes stay, and
// so does e's own Score. The lock that a unique job holds lasts until that time, and for its own time after it.
func (e *SortedEntry) Reschedule(ctx context.Context, at time.Time) (Outcome, error) {
	if e.Set == nil {
		return Gone, errNotMade
	}
	const verb = "reschedule an entry"
	score, err := scoreOf(at)
	if err = cmp.Or(e.Set.refuse(), err); err != nil {
		return Gone, e.Set.wrap(verb, err)
	}
	all, err := e.whole(ctx)
	if err != nil || all == nil {
		return Gone, e.Set.wrap(verb, err)
	}
	changed, err := e.Set.in().db().Do(ctx, "zadd", e.Set.Name, "xx", "ch", score, all.Raw).Int()
	if err == nil && changed == 0 { // it has that time, or is not there
		err = e.Set.in().db().ZScore(ctx, e.Set.Name, all.Raw).Err()
	}
	if errors.Is(err, redis.Nil) {
		return Gone, nil
	}
	if err != nil {
		return Gone, e.Set.wrap(verb, err)
	}
	e.Set.in().extend(ctx, &all.JobRecord, at)
	e.Set.wake(ctx)
	return Done, nil
}

// AddToQueue puts the job into its queue now: through the client's defaults and
// middleware, with a fresh enqueued_at and without a field "at".
func (e *SortedEntry) AddToQueue(ctx context.Context) (Outcome, error) {
	if e.Set == nil {
		return Gone, errNotMade
	}
	return e.enqueue(ctx, "add an entry to its queue", false)
}

// Retry is AddToQueue for a job that has failed: a manual retry is not counted,
// so retry_count goes down by one, to -1 after a first failure. A unique job takes its lock again if it was
// dead: while another job holds that, it stays where it is, and the error is a *client.DuplicateError.
func (e *SortedEntry) Retry(ctx context.Context) (Outcome, error) {
	if e.Set == nil {
		return Gone, errNotMade
	}
	return e.enqueue(ctx, "retry an entry", true)
}

// Kill moves the entry into the dead set with the time of now, and drops what is
// beyond the set's limits. Its bytes stay, except that JSON that is no object
// becomes a job of class Troupe::NotAJob with them as its argument: Sidekiq cannot
// show it otherwise. The lock of a unique job is freed. Death handlers are the caller's, who may run them
// after Done.
func (e *SortedEntry) Kill(ctx context.Context) (Outcome, error) {
	if e.Set == nil {
		return Gone, errNotMade
	}
	all, err := e.whole(ctx)
	if err != nil || all == nil {
		return Gone, e.Set.wrap("kill an entry", err)
	}
	there, err := e.Set.kill(ctx, []*SortedEntry{all})
	if err != nil {
		return Gone, e.Set.wrap("kill an entry", err)
	}
	e.gone.Store(true)
	return outcomeOf(there[0]), nil
}

// prepare makes what goes into the queue; nil if middleware has stopped it.
func (e *SortedEntry) prepare(ctx context.Context, now time.Time, retry bool) (*troupe.Payload, error) {
	if err := cmp.Or(e.Err, e.Set.refuse()); err != nil {
		return nil, err
	}
	p := e.Payload.Clone()
	if count, ok := p.Get("retry_count"); ok && retry && string(count) != "null" {
		p.SetInt("retry_count", int64(p.Failures())-2)
	}
	return e.Set.in().Client.Prepare(ctx, p, now)
}

// deadText is what the dead set gets for the entry: its bytes, but for JSON that is
// no object, which Sidekiq could not show there.
func (e *SortedEntry) deadText(now time.Time) string {
	if e.Err == nil {
		return e.Raw
	}
	return string(job.KeepNotAJob([]byte(e.Raw), "", now, troupe.TimestampsFloat))
}

// trim bounds the dead set after an insertion now.
func (i *Inspector) trim(now time.Time) limits.Trim {
	return limits.TrimAt(now, i.DeadMax, i.DeadTimeout)
}

// kill moves entries of the set into the dead set in one step and returns which
// were there.
func (s *JobSet) kill(ctx context.Context, entries []*SortedEntry) ([]bool, error) {
	now := time.Now()
	trim := s.in().trim(now)
	if redisconn.OnCluster(s.in().db()) && s.Name != keys.Dead {
		if s.rule != nil {
			return s.killHeldOnCluster(ctx, entries, now, trim)
		}
		return s.killOnCluster(ctx, entries, now, trim)
	}
	names, args := []string{s.Name, keys.Dead}, []any{scores.Format(scores.Of(now)), trim.Text(), len(entries)}
	var locks []any
	for i, e := range entries {
		text := e.deadText(now)
		if text == e.stored() {
			text = ""
		}
		args = append(args, e.stored(), text)
		if lock := e.lock(false); lock != nil && !redisconn.OnCluster(s.in().db()) {
			names, locks = append(names, lock.Key), append(locks, i+1, lock.JID)
		}
	}
	reply, err := killScript.Run(ctx, s.in().db(), names, append(args, locks...)...).Text()
	if err != nil {
		return nil, err
	}
	gone(entries)
	there, err := flags(reply, len(entries))
	s.in().count(ctx, records(entries), there, job.BatchDied)
	if s.Name != keys.Dead {
		s.in().keepEnds(ctx, job.EndedDead, records(entries), there)
	}
	return there, err
}
