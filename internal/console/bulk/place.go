package bulk

import (
	"cmp"
	"context"
	"crypto/hmac"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/scores"
)

// Place names an entry of a set in addresses and forms: its score, how many entries of that
// score stand before it, a digest of its bytes, and its jid. The score of a job of a queue is its
// position, 1 for the next one to run.
type Place struct {
	score  float64
	before int64
	digest string
	JID    string // "" in addresses
}

// String is what ParsePlace reads.
func (p Place) String() string {
	text := scores.Format(p.score) + "~" + strconv.FormatInt(p.before, 10) + "~" + p.digest
	if p.JID != "" {
		text += "~" + p.JID
	}
	return text
}

// ParsePlace is String the other way round. Its error is ErrPlace.
func ParsePlace(text string) (Place, error) {
	parts := strings.SplitN(text, "~", 4)
	if len(parts) < 3 {
		return Place{}, ErrPlace
	}
	score, err := strconv.ParseFloat(parts[0], 64)
	if err != nil || math.IsNaN(score) {
		return Place{}, ErrPlace
	}
	before, _ := strconv.ParseInt(parts[1], 10, 64) // it is a hint
	p := Place{score: score, before: max(before, 0), digest: parts[2]}
	if len(parts) > 3 {
		p.JID = parts[3]
	}
	return p, nil
}

// ErrPlace says that a text is no Place.
var ErrPlace = errors.New("this is no place in a set, expected SCORE~NUMBER~DIGEST")

// Places finds entries by their exact bytes, of which only a digest is told.
type Places struct {
	Redis  redis.UniversalClient
	Digest func(set string, raw []byte) string
}

// Of names an entry that stands behind so many of its score.
func (ps Places) Of(e *inspect.SortedEntry, before int64) Place {
	return Place{e.Score, before, ps.Digest(e.Set.Name, []byte(e.Raw)), e.JID}
}

// OfQueued names a job of a queue that is at a position.
func (ps Places) OfQueued(j *inspect.JobRecord, queue string, position int64) Place {
	return Place{float64(position), 0, ps.Digest(Queued+queue, []byte(j.Raw)), j.JID}
}

// Position is that of a job of a queue.
func (p Place) Position() int64 { return int64(p.score) }

// How far around its place a job of a queue is looked for: jobs before it may have run meanwhile. Jobs
// that are so near to each other are looked for together.
const placeBefore, placeAfter, together = 1000, 100, 1000

// FindQueued returns the jobs of a queue that places name, by their exact bytes and in their order; nil
// for those that are gone.
func (ps Places) FindQueued(ctx context.Context, q *inspect.Queue, places []Place) ([]*inspect.QueuedJob, error) {
	places = slices.Clone(places)
	for i, p := range places { // what somebody has made up may be any number
		places[i].score = min(max(p.score, 0), math.MaxInt32)
	}
	found := make([]*inspect.QueuedJob, len(places))
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(places[a].score, places[b].score) })
	for len(order) > 0 {
		first, n := places[order[0]].score, 1
		for n < len(order) && places[order[n]].score <= first+together {
			n++
		}
		wanted := map[string][]int{} // by digest
		for _, i := range order[:n] {
			wanted[places[i].digest] = append(wanted[places[i].digest], i)
		}
		at, end := int(max(0, first-1-placeBefore)), int(places[order[n-1]].score)+placeAfter
		for j, err := range q.OldestAfter(ctx, at) {
			if err != nil {
				return nil, err
			}
			digest := ps.Digest(Queued+q.Name, []byte(j.Raw))
			if these := wanted[digest]; len(these) > 0 {
				found[these[0]] = j
				if wanted[digest] = these[1:]; len(these) == 1 {
					delete(wanted, digest)
				}
			}
			if at++; at >= end || len(wanted) == 0 {
				break
			}
		}
		order = order[n:]
	}
	return found, nil
}

func (ps Places) is(p Place, e *inspect.SortedEntry) bool {
	return e.Score == p.score && hmac.Equal([]byte(ps.Digest(e.Set.Name, []byte(e.Raw))), []byte(p.digest))
}

// around is how far around its place an entry is looked for among those of the same score.
const around = 100

// near looks for the entry of a place. If it is gone, first is an entry before the place to go
// on behind, nil for the first of its score. All tells that all of this score were looked at.
func (ps Places) near(ctx context.Context, set *inspect.JobSet, p Place, up bool) (found, first *inspect.SortedEntry, all bool, err error) {
	at := scores.Format(p.score)
	low, high := "("+at, "+inf"
	if up {
		low, high = "-inf", "("+at
	}
	var before, same *redis.IntCmd
	if _, err = ps.Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		before, same = pipe.ZCount(ctx, set.Name, low, high), pipe.ZCount(ctx, set.Name, at, at)
		return nil
	}); err != nil {
		return nil, nil, false, err
	}
	from := max(0, min(p.before, same.Val())-around)
	n := min(same.Val()-from, 2*around)
	if n <= 0 {
		return nil, nil, true, nil
	}
	entries, _, err := set.Page(ctx, int(before.Val()+from), int(n), up)
	if err != nil {
		return nil, nil, false, err
	}
	if i := slices.IndexFunc(entries, func(e *inspect.SortedEntry) bool { return ps.is(p, e) }); i >= 0 {
		found = entries[i]
	}
	if from > 0 && len(entries) > 0 {
		first = entries[0]
	}
	return found, first, n == same.Val(), nil
}

// Find returns the entry of a place, by its exact bytes; nil if it is gone.
func (ps Places) Find(ctx context.Context, set *inspect.JobSet, p Place, up bool) (*inspect.SortedEntry, error) {
	found, _, all, err := ps.near(ctx, set, p, up)
	if found != nil || all || err != nil {
		return found, err
	}
	for e, err := range set.Fetch(ctx, p.score, p.score, p.JID) { // many have this score
		if err != nil {
			return nil, err
		}
		if ps.is(p, e) {
			return e, nil
		}
	}
	return nil, nil
}
