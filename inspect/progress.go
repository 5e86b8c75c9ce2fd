package inspect

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// Claim is a list of jobs that a Fetcher has in progress: those that one call took from one
// queue, or its waiting list for a queue, to which a push brings jobs while the fetcher waits.
type Claim struct {
	Fetcher *Fetcher
	Field   string // its name: the number of the call, or w:QUEUE of a waiting list
	Key     string // the list in Redis, the oldest job at the right
	Queue   string // the jobs were fetched from, and go back to
	Suspect bool   // they were fetched from the suspects of the queue
	Waiting bool   // it is a waiting list
	Size    int64

	// Since is when the jobs were taken; of a waiting list, when its oldest one was
	// pushed. The zero time if that is not known.
	Since time.Time

	i *Inspector
}

// How much is read at once.
const (
	fetchersPage = 50
	claimPage    = 50 // jobs: a claim has at most 64
)

// Claims walks through all lists of jobs in progress that are not empty, fetcher by
// fetcher, each list from the oldest on. It ends after an error, and changes nothing.
func (i *Inspector) Claims(ctx context.Context) iter.Seq2[*Claim, error] {
	return func(yield func(*Claim, error) bool) {
		fetchers, err := i.fetchers(ctx)
		if err != nil {
			yield(nil, fmt.Errorf("list claims: %w", err))
			return
		}
		for chunk := range slices.Chunk(fetchers, fetchersPage) {
			claims, err := i.claims(ctx, chunk)
			if err != nil {
				yield(nil, fmt.Errorf("list claims: %w", err))
				return
			}
			for _, c := range claims {
				c.Fetcher.Size += c.Size
			}
			for _, c := range claims {
				if !yield(c, nil) {
					return
				}
			}
		}
	}
}

// Each walks through the jobs of the list, the oldest first. It ends after an error, and
// changes nothing. A job that is settled meanwhile may hide others of its list.
func (c *Claim) Each(ctx context.Context) iter.Seq2[*JobRecord, error] {
	return func(yield func(*JobRecord, error) bool) {
		for at := 0; ; at += claimPage {
			page, err := c.in().page(ctx, fromTail, c.Key, at, claimPage)
			if err != nil && !absent(err) {
				yield(nil, fmt.Errorf("list jobs in progress: %w", err))
				return
			}
			for _, one := range page {
				r := recordOf(one.text, "")
				if !yield(&r, nil) {
					return
				}
			}
			if len(page) < claimPage {
				return
			}
		}
	}
}

// claims reads the places of some fetchers.
func (i *Inspector) claims(ctx context.Context, fetchers []*Fetcher) ([]*Claim, error) {
	var cmds []redis.Cmder
	for _, f := range fetchers {
		for _, s := range f.slots {
			cmds = append(cmds, redis.NewMapStringStringCmd(ctx, "hgetall", s.Index(f.ID)))
		}
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return nil, err
	}
	var all []*Claim
	for _, f := range fetchers {
		from := len(all)
		for _, s := range f.slots {
			for field, value := range cmds[0].(*redis.MapStringStringCmd).Val() {
				if field == "!" {
					f.Fenced = f.Fenced || strings.HasPrefix(value, "fenced")
					continue
				}
				all = append(all, i.newClaim(f, s, field, value))
			}
			cmds = cmds[1:]
		}
		slices.SortFunc(all[from:], byAge)
	}
	return i.measured(ctx, all)
}

// newClaim makes a claim from a field of an in-progress index.
func (i *Inspector) newClaim(f *Fetcher, s slot, field, value string) *Claim {
	c := &Claim{Fetcher: f, Field: field, Key: s.List(f.ID, field), Queue: value, Waiting: strings.HasPrefix(field, "w"), i: i}
	if at := strings.LastIndexByte(value, ' '); at >= 0 {
		c.Queue = value[:at]
		if ms, err := strconv.ParseInt(value[at+1:], 10, 64); err == nil {
			c.Since = time.UnixMilli(ms).UTC()
		}
	}
	if !slices.Contains(s.queues, c.Queue) {
		c.Queue, c.Suspect = strings.CutSuffix(c.Queue, keys.SuspectsSuffix)
	}
	if c.Waiting {
		c.Since = time.Time{} // the list was opened then
	}
	return c
}

// byAge sorts claims by number of their call, and waiting lists behind them.
func byAge(a, b *Claim) int {
	switch wa, wb := a.Waiting, b.Waiting; {
	case wa && wb:
		return cmp.Compare(a.Field, b.Field)
	case wa:
		return 1
	case wb:
		return -1
	}
	callA, nA, _ := strings.Cut(a.Field, ".")
	callB, nB, _ := strings.Cut(b.Field, ".")
	return cmp.Or(len(callA)-len(callB), cmp.Compare(callA, callB), len(nA)-len(nB), cmp.Compare(nA, nB),
		cmp.Compare(a.Queue, b.Queue))
}

// measured asks for the lengths, and leaves out what is empty.
func (i *Inspector) measured(ctx context.Context, claims []*Claim) ([]*Claim, error) {
	cmds := make([]redis.Cmder, len(claims))
	var waiting []string
	for n, c := range claims {
		cmds[n] = redis.NewIntCmd(ctx, "llen", c.Key)
		if c.Waiting {
			waiting = append(waiting, c.Key)
		}
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return nil, err
	}
	oldest, err := i.firsts(ctx, fromTail, waiting)
	if err != nil {
		return nil, err
	}
	out := claims[:0]
	for n, c := range claims {
		c.Size = cmds[n].(*redis.IntCmd).Val()
		if c.Waiting {
			r := recordOf(oldest[0], "")
			oldest = oldest[1:]
			c.Since, _ = r.Payload.Time("enqueued_at")
		}
		if c.Size > 0 {
			out = append(out, c)
		}
	}
	return out, nil
}
