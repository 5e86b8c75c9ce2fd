package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// Close gives back what was taken and never handed out, and ends the
// registration; see Fetcher. After an error it may be called again, and the
// other methods are closed only when it has succeeded.
func (f *reliable) Close(ctx context.Context) (left int, err error) {
	if err := errors.Join(f.bell.close(ctx), f.peeks.close(ctx), f.laps.close(ctx)); err != nil {
		return 0, fmt.Errorf("close: %w", err)
	}
	return f.owner.close(ctx)
}

// close is Close when nobody listens any more.
func (f *owner) close(ctx context.Context) (left int, err error) {
	for {
		f.mu.Lock()
		done := f.closed || !f.registering
		leaving, registered := f.leaving, f.registered
		f.closed = done
		f.mu.Unlock()
		if done { // closed before, or nothing was ever said to Redis
			return 0, nil
		}
		if registered && !leaving {
			if err := f.giveBack(ctx); errors.Is(err, ErrFenced) {
				continue // nothing is ours any more
			} else if err != nil {
				return 0, fmt.Errorf("close: %w", err)
			}
		}
		left, err := f.leave(ctx)
		if redis.HasErrorPrefix(err, "FENCED") || err == nil && left < 0 && registered && !leaving {
			// Not registered, and not by an earlier leave of ours: go round and ask why.
			f.mu.Lock()
			f.doubt, f.leaving = true, false
			f.mu.Unlock()
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("close: %w", err)
		}
		f.mu.Lock()
		f.closed = true
		f.mu.Unlock()
		return max(left, 0), nil
	}
}

// giveBack settles all doubts and puts the stash back into the queues.
func (f *owner) giveBack(ctx context.Context) error {
	if err := f.Open(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	var moves []Move
	for _, u := range slices.Concat(f.stash, f.suspects) {
		moves = append(moves, Move{Unit: u, To: ToQueue})
	}
	f.stash, f.suspects = nil, nil
	f.mu.Unlock()
	if len(moves) == 0 {
		return nil
	}
	if _, err := f.kind.Settle(ctx, moves); err != nil {
		f.mu.Lock()
		for _, m := range moves {
			if m.Unit.Incarnation == f.cur.n {
				f.stash = append(f.stash, m.Unit)
			}
		}
		f.mu.Unlock()
		return err
	}
	return nil
}

// leave ends the registration unless units are in progress, and returns their
// number; -1 if there was no registration. The reply of a leave may be lost:
// the next Close then takes -1 for its success.
func (f *owner) leave(ctx context.Context) (int, error) {
	if err := f.gate.enterAlone(ctx); err != nil {
		return 0, err
	}
	defer f.gate.leaveAlone()
	f.mu.Lock()
	in := f.cur
	f.leaving = true
	f.mu.Unlock()
	return f.kind.depart(ctx, in)
}

func (f *reliable) depart(ctx context.Context, in *incarnation) (int, error) {
	return leaveScript.Run(ctx, f.rdb,
		append([]string{keys.Procs, keys.Leases, in.lease}, in.wips...), in.id).Int()
}
