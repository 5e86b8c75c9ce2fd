package inspect

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/scores"
)

// JobSet is one of the three sorted sets of jobs, or what a rule of a limit holds (see LimitRule.Jobs). Scores are seconds
// since the epoch.
type JobSet struct {
	Name string // the key: "retry", "schedule" or "dead", or that of held jobs
	rule *LimitRule
	i    *Inspector
}

// Size returns the number of entries.
func (s *JobSet) Size(ctx context.Context) (int64, error) {
	s = s.made()
	n, err := s.in().db().ZCard(ctx, s.Name).Result()
	return n, s.wrap("size", err)
}

// Clear deletes as many entries as the set has, the lowest score first, and returns how many it has deleted. The
// locks of unique jobs are freed. It works in pages, so that Redis answers others meanwhile, and in a
// Redis that is full, too.
func (s *JobSet) Clear(ctx context.Context) (int64, error) {
	s = s.made()
	if s.rule != nil {
		counts, err := s.DeleteAll(ctx, Bulk{})
		return int64(counts.Done), err
	}
	size, err := s.Size(ctx)
	if err != nil {
		return 0, err
	}
	n, err := s.in().clear(ctx, s.Name, fromSet, size)
	return n, s.wrap("clear", err)
}

// Schedule adds a job as it is, without middleware or defaults. Package client
// is what pushes jobs for later; this is for jobs that come from elsewhere.
func (s *JobSet) Schedule(ctx context.Context, at time.Time, p *troupe.Payload) error {
	s = s.made()
	score, err := scoreOf(at)
	if err == nil {
		err = s.refuse()
	}
	if err == nil {
		err = p.Rewritable()
	}
	if err == nil {
		err = s.in().db().Do(ctx, "zadd", s.Name, score, p.Bytes()).Err()
	}
	if err == nil {
		s.wake(ctx)
	}
	return s.wrap("schedule", err)
}

// wake wakes the process that watches the sets, where Redis does not tell it of
// changes. That it cannot be reached does not matter: there is the interval.
func (s *JobSet) wake(ctx context.Context) { _ = s.in().db().Publish(ctx, keys.Wakeup, 1).Err() }

// scoreOf returns the text of a time as a score. Sidekiq's pages cannot name
// entries with negative ones.
func scoreOf(t time.Time) (string, error) {
	score := scores.Of(t)
	if score < 0 {
		return "", fmt.Errorf("got the time %s, expected 1970 or later", t.UTC().Format(time.RFC3339))
	}
	return scores.Format(score), nil
}

// Page returns limit entries (1 or more) from offset on (0 is the first), the highest score first or
// the lowest, and how many there are in all. Behind the last there are none, without an error.
func (s *JobSet) Page(ctx context.Context, offset, limit int, lowestFirst bool) (entries []*SortedEntry, size int64, err error) {
	s = s.made()
	if offset < 0 || limit < 1 {
		return nil, 0, fmt.Errorf("page of set %s: got offset %d and limit %d, expected at least 0 and 1", s.Name, offset, limit)
	}
	where := fromHigh
	if lowestFirst {
		where = fromLow
	}
	length := redis.NewIntCmd(ctx, "zcard", s.Name)
	page, err := s.in().page(ctx, where, s.Name, offset, limit, length)
	if err != nil {
		return nil, 0, s.wrap("page", err)
	}
	for _, one := range page {
		entries = append(entries, s.entry(one.text, one.score))
	}
	return entries, length.Val(), nil
}

// Due returns how many entries are due at a time, and the first of them; nil if none is. Nothing
// is read of those that are due later.
func (s *JobSet) Due(ctx context.Context, now time.Time) (first *SortedEntry, due int64, err error) {
	s = s.made()
	due, err = s.in().db().ZCount(ctx, s.Name, "-inf", scores.Format(scores.Of(now))).Result()
	if err != nil || due == 0 {
		return nil, 0, s.wrap("count what is due", err)
	}
	page, err := s.in().page(ctx, fromLow, s.Name, 0, 1)
	if err != nil || len(page) == 0 || page[0].score > scores.Of(now) { // it has been moved since
		return nil, 0, s.wrap("read what is due", err)
	}
	return s.entry(page[0].text, page[0].score), due, nil
}

// Each walks through the set, the highest score first, in pages. The walk ends
// after an error. An entry that stays throughout with its score comes exactly
// once, whatever is added and removed meanwhile, by the loop's body too.
func (s *JobSet) Each(ctx context.Context) iter.Seq2[*SortedEntry, error] {
	s = s.made()
	return func(yield func(*SortedEntry, error) bool) {
		w := setWalk{set: s, score: math.Inf(1)}
		w.each(ctx, yield)
	}
}

// From walks through the set as Each does, the highest score first or the lowest, from a score
// on; behind, unless it is nil, is an entry of the set that is there or has been, and the walk
// begins behind it.
func (s *JobSet) From(ctx context.Context, score float64, behind *SortedEntry, lowestFirst bool) iter.Seq2[*SortedEntry, error] {
	s = s.made()
	return func(yield func(*SortedEntry, error) bool) {
		w := setWalk{set: s, score: score, up: lowestFirst}
		if behind != nil {
			w.score, w.last, w.begun, w.page, w.rank = behind.Score, behind.text, true, []*SortedEntry{behind}, -1
		}
		w.each(ctx, yield)
	}
}

// Fetch walks through the entries whose score lies between from and to, both
// included, the lowest first; the same value twice names one instant. A jid
// other than "" chooses the entries of that job.
func (s *JobSet) Fetch(ctx context.Context, from, to float64, jid string) iter.Seq2[*SortedEntry, error] {
	s = s.made()
	return func(yield func(*SortedEntry, error) bool) {
		w := setWalk{set: s, up: true, score: from}
		w.each(ctx, func(e *SortedEntry, err error) bool {
			switch {
			case err != nil:
				return yield(nil, err)
			case e.Score > to:
				return false
			case jid != "" && e.JID != jid:
				return true
			}
			return yield(e, nil)
		})
	}
}

// Lookup returns the entry with that key (see SortedEntry.Key), or ErrNotFound.
func (s *JobSet) Lookup(ctx context.Context, key string) (*SortedEntry, error) {
	s = s.made()
	sign := 0
	if strings.HasPrefix(key, "-") {
		sign = 1
	}
	number, jid, ok := strings.Cut(key[sign:], "-")
	score, err := strconv.ParseFloat(key[:sign]+number, 64)
	if !ok || err != nil || math.IsNaN(score) {
		return nil, fmt.Errorf("look up an entry of set %s: got key %.100q, expected SCORE-JID", s.Name, key)
	}
	for e, err := range s.Fetch(ctx, score, score, "") {
		if err != nil {
			return nil, err
		}
		if e.JID == jid {
			return e, nil
		}
	}
	return nil, s.wrap("look up an entry", ErrNotFound)
}

// FindJob returns an entry of the job with that id, or ErrNotFound. It scans
// the set.
func (s *JobSet) FindJob(ctx context.Context, jid string) (*SortedEntry, error) {
	s = s.made()
	if jid == "" {
		return nil, s.wrap("find a job without a jid", ErrNotFound)
	}
	var p troupe.Payload
	p.SetString("jid", jid)
	quoted, _ := p.Get("jid")
	for e, err := range s.Scan(ctx, "*"+literal.Replace(string(quoted[1:len(quoted)-1]))+"*") {
		if err != nil {
			return nil, err
		}
		if e.JID == jid || e.Held != nil && e.Held.JID == jid {
			return e, nil
		}
	}
	return nil, s.wrap("find "+jid, ErrNotFound)
}

// literal makes a glob of a text that stands for itself only.
var literal = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// Scan goes through all entries whose bytes match a glob (Redis's: * ? [a-z] \),
// in no order. A glob without * is looked for anywhere in the bytes, as by
// Sidekiq's search. An entry may come twice while the set grows or shrinks.
func (s *JobSet) Scan(ctx context.Context, glob string) iter.Seq2[*SortedEntry, error] {
	s = s.made()
	if !strings.Contains(glob, "*") {
		glob = "*" + glob + "*"
	}
	return func(yield func(*SortedEntry, error) bool) {
		for cursor := uint64(0); ; {
			windows, err := s.in().read(ctx, []reading{{where: scanned, key: s.Name, first: strconv.FormatUint(cursor, 10), count: scanPage, glob: glob}})
			if err != nil {
				yield(nil, s.wrap("scan", err))
				return
			}
			for _, one := range windows[0].all {
				if !yield(s.entry(one.text, one.score), nil) {
					return
				}
			}
			if cursor = windows[0].next; cursor == 0 {
				return
			}
		}
	}
}

func (s *JobSet) wrap(verb string, err error) error {
	if err != nil {
		return fmt.Errorf("set %s: %s: %w", s.Name, verb, err)
	}
	return nil
}
