package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	closeTime = 24 * time.Hour // how long a list stays closed that may still get a job
	endTime   = time.Second    // how long an answer of Redis to the end of a wait may take
)

// Close ends all waits, gives back what nobody has taken, and leaves; see Fetcher.
func (f *fetcher) Close(ctx context.Context) (left int, err error) {
	if err := f.endWaits(ctx); err != nil {
		return 0, fmt.Errorf("close: %w", err)
	}
	for {
		f.mu.Lock()
		in, closed := f.cur, f.closed
		f.mu.Unlock()
		if closed {
			return 0, nil
		}
		left, err := f.leave(ctx, in)
		var fenced *FencedError
		if errors.Is(err, errOver) || errors.As(err, &fenced) {
			continue // nothing is ours any more
		}
		if err != nil {
			return 0, fmt.Errorf("close: %w", err)
		}
		f.mu.Lock()
		f.closed = true
		f.wake()
		f.mu.Unlock()
		return left, nil
	}
}

// endWaits returns when no waiter runs.
func (f *fetcher) endWaits(ctx context.Context) error {
	f.mu.Lock()
	f.closing = true
	f.wake()
	in := f.cur
	for _, p := range in.places {
		for _, w := range p.waiters {
			if w.open {
				w.end()
			}
		}
	}
	patience := f.longest() + endTime // a move that cannot be ended runs out
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(end)*3/4) // and after it the fetcher is to leave
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	for f.running > 0 || f.calming { // f.mu is held
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-t.C: // Redis does not answer
			for _, p := range in.places {
				for _, w := range p.waiters {
					w.conn.close()
				}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		f.mu.Lock()
	}
	if f.calm != nil {
		f.calm.Stop()
	}
	f.mu.Unlock()
	return nil
}

// leave ends the incarnation unless jobs are in progress, and returns their number.
func (f *fetcher) leave(ctx context.Context, in *incarnation) (left int, err error) {
	f.mu.Lock()
	used := in.leased
	f.mu.Unlock()
	if !used { // nothing was ever said to Redis
		return 0, nil
	}
	for _, p := range in.places {
		n, err := p.leave(ctx)
		if err != nil {
			return 0, err
		}
		left += n
	}
	if left == 0 {
		_, err = f.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Del(ctx, in.common.Lease)
			pipe.ZRem(ctx, in.common.Expiries, in.id)
			pipe.HDel(ctx, in.common.Owners, in.id)
			return nil
		})
	}
	return left, err
}

// leave gives back what nobody has taken, and removes the place if nothing is left.
func (p *place) leave(ctx context.Context) (left int, err error) {
	f := p.in.f
	if p.left {
		return 0, nil
	}
	if p.opened && !p.leaving {
		if err := p.turnOf(ctx, func() error { return p.ready(ctx) }); err != nil {
			return 0, err
		}
	}
	for _, w := range p.waiters {
		f.mu.Lock()
		unsure := w.compare
		f.mu.Unlock()
		if unsure && p.opened && !p.leaving {
			w.check(ctx)
		}
	}
	f.mu.Lock()
	var moves []*Move
	for _, u := range f.stash {
		if p.in.placeOf(f.index[u.Queue]) == p {
			moves = append(moves, &Move{Unit: u, To: ToQueue})
		}
	}
	f.mu.Unlock()
	var refused error
	for moves = inOrder(moves); len(moves) > 0 && !p.leaving; {
		batch := batchOf(moves)
		moves = moves[len(batch):]
		if err := p.settle(ctx, batch, &refused); err != nil {
			return 0, err
		}
	}
	f.mu.Lock()
	f.stash = slices.DeleteFunc(f.stash, func(u Unit) bool {
		q := p.in.placeOf(f.index[u.Queue])
		_, _, ok := q.lookup(&u)
		return q == p && !ok
	})
	f.mu.Unlock()
	if refused != nil {
		return 0, refused
	}
	err = p.turnOf(ctx, func() (err error) {
		for again := false; ; again = true {
			if !p.leaving {
				if err := p.ready(ctx); err != nil {
					return err
				}
			}
			left, err = p.leaveNow(ctx)
			if err == nil || again || !hasPrefix(err, "STALE", "MISSING") { // or Redis has fallen back
				return err
			}
		}
	})
	return left, err
}

// leaveNow makes the call. It is our turn.
func (p *place) leaveNow(ctx context.Context) (left int, err error) {
	f := p.in.f
	names, args := []string{p.registry}, []any{p.in.id, closeTime.Milliseconds()}
	f.mu.Lock()
	for _, l := range p.lists {
		more := ""
		for _, w := range p.waiters {
			if w.list == l && w.lost {
				more = "1"
			}
		}
		names, args = append(names, l.key), append(args, more)
	}
	f.mu.Unlock()
	again := p.leaving
	p.leaving = true
	reply, err := p.call(ctx, leaveScript, names, args, func() {})
	switch {
	case again && hasPrefix(err, "MISSING"): // an earlier try whose reply was lost
		p.left = true
		return 0, nil
	case err != nil:
		p.leaving = !isReply(err)
		return 0, err
	}
	left, err = strconv.Atoi(reply[0])
	p.leaving, p.left = false, left == 0
	return left, err
}
