package sched

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// Ride adds to p, a pipeline or a MULTI that is sent now and then, a question
// whether a seat is free; end is to be called once p has been sent. A Watch that
// waits for one then asks at once. So it need not ask often in a large fleet, and
// in one that has become small somebody watches soon. end is nil, and p as it was,
// when no Watch waits.
func (s *Scheduler) Ride(ctx context.Context, p redis.Pipeliner) (end func()) {
	if !s.waiting.Load() {
		return nil
	}
	taken := p.Exists(ctx, keys.Poller, keys.Standby)
	return func() {
		if taken.Err() == nil && taken.Val() < 2 {
			select {
			case s.vacant <- struct{}{}:
			default:
			}
		}
	}
}

// standBy waits until a seat is free or d has passed; false when ctx has ended.
func (s *Scheduler) standBy(ctx context.Context, d time.Duration) bool {
	s.waiting.Store(true)
	defer s.waiting.Store(false)
	select {
	case <-s.vacant: // of another time
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.vacant:
		return true
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
