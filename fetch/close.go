package fetch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

const endTime = time.Second // how long an answer of Redis to the end of a wait may take

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
		if errors.Is(err, errOver) {
			continue // nothing is ours any more
		}
		if err != nil {
			return 0, fmt.Errorf("close: %w", err)
		}
		f.mu.Lock()
		f.closed = true
		f.wakeLocked()
		f.mu.Unlock()
		return left, nil
	}
}

// endWaits returns when no waiter runs.
func (f *fetcher) endWaits(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing = true
	f.wakeLocked()
	in := f.cur
	in.endMovesLocked()
	patience := f.longest() + endTime // a move that cannot be ended runs out
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(end)*3/4) // and after it the fetcher is to leave
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	for f.running > 0 || f.ending {
		if err := ctx.Err(); err != nil {
			return err
		}
		changed := f.changed
		f.mu.unlocked(func() {
			select {
			case <-changed:
			case <-t.C: // Redis does not answer
				for _, w := range in.waiters {
					w.cut(true)
				}
			case <-ctx.Done():
			}
		})
	}
	if f.endTimer != nil {
		f.endTimer.Stop()
	}
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
	for _, p := range in.indexes {
		if err := p.settled(ctx); err != nil {
			return 0, err
		}
	}
	if err := f.giveBack(ctx, in); err != nil {
		return 0, err
	}
	for _, p := range in.indexes {
		err := p.try(ctx, func() error {
			n, err := p.leave(ctx)
			left += n
			return err
		})
		if err != nil {
			return 0, err
		}
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

// settled makes sure of what the lists of an index hold, if there may be any.
func (p *index) settled(ctx context.Context) error {
	p.in.f.mu.Lock()
	opened := p.gen > 0
	p.in.f.mu.Unlock()
	if !opened || p.left || p.leaving {
		return nil
	}
	if err := p.withCallLock(ctx, func() error { return p.ready(ctx) }); err != nil {
		return err
	}
	for _, w := range p.waiters {
		p.in.f.mu.Lock()
		unsure := w.next.IsZero()
		p.in.f.mu.Unlock()
		if unsure {
			w.check(ctx)
		}
	}
	return nil
}

// leave removes the index if nothing is left. The call lock is held.
func (p *index) leave(ctx context.Context) (left int, err error) {
	if p.left {
		return 0, nil
	}
	f := p.in.f
	names, args := []string{p.registry}, []any{p.in.id, keys.CloseTime.Milliseconds()}
	f.mu.Lock()
	for _, l := range p.lists {
		more := ""
		if l.lost {
			more = "1"
		}
		names, args = append(names, l.key), append(args, more)
	}
	f.mu.Unlock()
	again := p.leaving
	p.leaving = true
	reply, err := p.call(ctx, leaveScript, names, args, func() {})
	switch {
	case again && redisconn.HasPrefix(err, "MISSING"): // an earlier try whose reply was lost
		p.left = true
		return 0, nil
	case err != nil:
		p.leaving = !redisconn.IsReply(err)
		return 0, err
	}
	left, err = strconv.Atoi(reply[0])
	p.leaving, p.left = false, left == 0
	return left, err
}
