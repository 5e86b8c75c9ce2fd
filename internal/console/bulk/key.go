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

// Key names an entry of a set in addresses and forms: its score, how many entries of that
// score are before it, a digest of its bytes, and its jid. The score of a job of a queue is its
// position, 1 for the next one to run.
type Key struct {
	score  float64
	before int64
	digest string
	JID    string // "" in addresses
}

// String is what ParseKey reads.
func (p Key) String() string {
	text := scores.Format(p.score) + "~" + strconv.FormatInt(p.before, 10) + "~" + p.digest
	if p.JID != "" {
		text += "~" + p.JID
	}
	return text
}

// ParseKey is String the other way round. Its error is ErrKey.
func ParseKey(text string) (Key, error) {
	parts := strings.SplitN(text, "~", 4)
	if len(parts) < 3 {
		return Key{}, ErrKey
	}
	score, err := strconv.ParseFloat(parts[0], 64)
	if err != nil || math.IsNaN(score) {
		return Key{}, ErrKey
	}
	before, _ := strconv.ParseInt(parts[1], 10, 64) // it is a hint
	p := Key{score: score, before: max(before, 0), digest: parts[2]}
	if len(parts) > 3 {
		p.JID = parts[3]
	}
	return p, nil
}

// ErrKey says that a text is no Key.
var ErrKey = errors.New("this is no key of an entry, expected SCORE~NUMBER~DIGEST")

// Keys finds entries by their exact bytes, of which a Key has only a digest.
type Keys struct {
	Redis  redis.UniversalClient
	Digest func(set string, raw []byte) string
}

// Of is the key of an entry with so many of its score before it.
func (ks Keys) Of(e *inspect.SortedEntry, before int64) Key {
	return Key{e.Score, before, ks.Digest(e.Set.Name, []byte(e.Raw)), e.JID}
}

// OfQueued is the key of a job of a queue at a position.
func (ks Keys) OfQueued(j *inspect.JobRecord, queue string, position int64) Key {
	return Key{float64(position), 0, ks.Digest(Queued+queue, []byte(j.Raw)), j.JID}
}

// Position is that of a job of a queue.
func (p Key) Position() int64 { return int64(p.score) }

// How far around its position a job of a queue is searched: jobs before it may have run meanwhile. One
// search finds all jobs that are so near to each other.
const keyBefore, keyAfter, together = 1000, 100, 1000

// FindQueued returns the jobs of a queue that have the keys, by their exact bytes and in the order of
// the keys; nil for those that are gone.
func (ks Keys) FindQueued(ctx context.Context, q *inspect.Queue, named []Key) ([]*inspect.QueuedJob, error) {
	named = slices.Clone(named)
	for i, p := range named { // a key that somebody has made up may have any number
		named[i].score = min(max(p.score, 0), math.MaxInt32)
	}
	found := make([]*inspect.QueuedJob, len(named))
	order := make([]int, len(named))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(named[a].score, named[b].score) })
	for len(order) > 0 {
		first, n := named[order[0]].score, 1
		for n < len(order) && named[order[n]].score <= first+together {
			n++
		}
		wanted := map[string][]int{} // by digest
		for _, i := range order[:n] {
			wanted[named[i].digest] = append(wanted[named[i].digest], i)
		}
		at, end := int(max(0, first-1-keyBefore)), int(named[order[n-1]].score)+keyAfter
		for j, err := range q.OldestAfter(ctx, at) {
			if err != nil {
				return nil, err
			}
			digest := ks.Digest(Queued+q.Name, []byte(j.Raw))
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

func (ks Keys) is(p Key, e *inspect.SortedEntry) bool {
	return e.Score == p.score && hmac.Equal([]byte(ks.Digest(e.Set.Name, []byte(e.Raw))), []byte(p.digest))
}

// around is how far around its position an entry is searched among those of the same score.
const around = 100

// near searches the entry of a key near its position. If it is gone, first is an entry before it after
// which a walk goes on, nil for the first of its score. All reports whether all of this score were read.
func (ks Keys) near(ctx context.Context, set *inspect.JobSet, p Key, up bool) (found, first *inspect.SortedEntry, all bool, err error) {
	at := scores.Format(p.score)
	low, high := "("+at, "+inf"
	if up {
		low, high = "-inf", "("+at
	}
	var before, same *redis.IntCmd
	if _, err = ks.Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
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
	if i := slices.IndexFunc(entries, func(e *inspect.SortedEntry) bool { return ks.is(p, e) }); i >= 0 {
		found = entries[i]
	}
	if from > 0 && len(entries) > 0 {
		first = entries[0]
	}
	return found, first, n == same.Val(), nil
}

// Find returns the entry of a key, by its exact bytes; nil if it is gone.
func (ks Keys) Find(ctx context.Context, set *inspect.JobSet, p Key, up bool) (*inspect.SortedEntry, error) {
	found, _, all, err := ks.near(ctx, set, p, up)
	if found != nil || all || err != nil {
		return found, err
	}
	for e, err := range set.Fetch(ctx, p.score, p.score, p.JID) { // many have this score
		if err != nil {
			return nil, err
		}
		if ks.is(p, e) {
			return e, nil
		}
	}
	return nil, nil
}
