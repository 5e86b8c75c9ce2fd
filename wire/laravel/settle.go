package laravel

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/troupehq/troupe/fetch"
)

// kinds are what the script calls the ways of a move.
var kinds = map[fetch.Destination]string{
	fetch.ToQueue: "q", fetch.ToBack: "b", fetch.ToRetry: "d", fetch.ToSchedule: "d", fetch.ToDead: "f",
}

// Settle implements fetch.Fetcher.
func (f *fetcher) Settle(ctx context.Context, in []fetch.Move) ([]fetch.Result, error) {
	if err := f.begin(ctx); err != nil {
		return nil, err
	}
	defer f.end()
	if err := f.settled(ctx); err != nil {
		return nil, err
	}
	var moves, next []move
	for i := range in {
		m := &in[i]
		j := f.held[m.Unit.Receipt]
		if j == nil {
			continue
		}
		to := move{job: j, kind: kinds[m.To], text: m.Payload, score: m.Score, trim: m.Trim}
		if to.text == nil {
			to.text = m.Unit.Payload
		}
		switch m.To {
		case fetch.ToQueue:
			next = append(next, to)
			continue
		case fetch.ToRetry, fetch.ToSchedule:
			to.score = wholeSeconds(m.Score)
		case fetch.ToDead:
			if text := f.s.relayed(to.text); text != nil {
				to.kind, to.text = "r", text
			}
		case fetch.ToBack, fetch.ToStay, fetch.ToNone: // the last two are for an Effector
		}
		moves = append(moves, to)
	}
	slices.Reverse(next) // what is pushed last is popped first
	refused, err := f.moveAll(ctx, append(moves, next...), 0)
	if err = cmp.Or(err, refused); err != nil {
		return nil, err
	}
	if err := f.fenced(); err != nil {
		return nil, err
	}
	results := make([]fetch.Result, len(in))
	for i := range in {
		receipt := in[i].Unit.Receipt
		var ok bool
		if results[i], ok = f.known[receipt]; !ok && receipt != "" {
			results[i] = fetch.NotMine
		}
	}
	if len(f.known) > knownMost {
		clear(f.known)
	}
	return results, nil
}

// fenced tells once that the lease has been lost.
func (f *fetcher) fenced() error {
	if f.lost == nil {
		return nil
	}
	err := f.lost
	f.lost = nil
	return err
}

// fence notes that what is held has been taken over. Jobs that are still reserved, since nobody has
// looked at their queue, go back: their callers hear that they are somebody else's.
func (f *fetcher) fence() {
	if f.lost == nil {
		f.lost = &fetch.FencedError{ID: f.call}
	}
	f.lost.Incarnation = f.inc
	if f.env.Fenced != nil {
		f.env.Fenced(f.inc)
	}
	for _, j := range f.sorted() {
		f.back = append(f.back, j)
		delete(f.held, j.receipt)
	}
	f.stash = nil
	f.inc++
}

// sorted are the jobs that are held, the oldest first.
func (f *fetcher) sorted() []*reservation {
	jobs := make([]*reservation, 0, len(f.held))
	for _, j := range f.held {
		jobs = append(jobs, j)
	}
	slices.SortFunc(jobs, func(a, b *reservation) int {
		if len(a.receipt) != len(b.receipt) {
			return len(a.receipt) - len(b.receipt)
		}
		return strings.Compare(a.receipt, b.receipt)
	})
	return jobs
}

// wholeSeconds is a score as Laravel has it, rounded up.
func wholeSeconds(score float64) float64 { return math.Ceil(score) }
