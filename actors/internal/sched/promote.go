package sched

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/moving"
	"github.com/troupehq/troupe/internal/redisconn"
)

// Promoted is the result of one call of Promote.
type Promoted struct {
	Moved   int // now in their queues
	Dead    int // were no valid jobs; now in the dead set, bytes unchanged
	Dropped int // stopped by client middleware; gone, as with Ruby's poller

	// More tells to call again at once. Otherwise Next is the time for the next call: when the first entry
	// is due that is not due yet, by Redis's clock, or when an entry that could
	// not be moved is tried again. Zero means that nothing waits, or that another process is moving
	// the same entries.
	More bool
	Next time.Time
}

const (
	// promoteTimeout bounds each of the two round trips, whatever time-outs the client
	// has: on a connection whose other end is gone they could last much longer than the
	// outage. Client middleware runs between them and takes its own time.
	promoteTimeout = 10 * time.Second

	// Members are prepared for so long, then those that are ready are moved.
	prepareTime = 50 * time.Millisecond
)

// Promote moves one batch of the entries of set, "retry" or "schedule", that are due by Redis's clock. On an
// error the counts hold for what was moved all the same. Faults of single members are
// logged, not returned; see Config.Logger.
func (s *Scheduler) Promote(ctx context.Context, set string) (out Promoted, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("promote %s: %w", set, err)
		}
	}()
	cur := s.cursors[set]
	if cur == nil {
		return out, errors.New("it is not one of retry and schedule")
	}
	cur.mu.Lock()
	defer cur.mu.Unlock()
	if redisconn.OnCluster(s.cfg.Redis) {
		if _, err := moving.Abandoned(ctx, s.cfg.Redis, set); err != nil {
			return out, err
		}
	}
	now := time.Now()
	a := cur.begin(now)
	a.sets = []string{set}
	a.term = cur.term
	if a.term.leads.Load() {
		a.as, a.lock = s.cfg.Identity, lockLife
	}
	if cur.page.lost {
		return Promoted{More: true}, s.askSmall(ctx, cur, a)
	}
	defer func() {
		if ctx.Err() == nil && redisconn.Classify(err) == redisconn.Outage && !errchain.Has[redis.Error](err) {
			cur.page.lost = true
		}
	}()
	got, err := s.due(ctx, a)
	if err != nil {
		return out, err
	}
	f := got.sets[0]
	if f.err != nil {
		return out, f.err
	}
	b := batch{s: s, set: set, cur: cur, now: now, groups: []*moving.Group{dying: {Key: keys.Dead}, dropped: {}}}
	for i, member := range f.members {
		if i > 0 && time.Since(now) > prepareTime {
			cur.page.count, f.more = i, true
			break
		}
		if err := b.sort(ctx, member); err != nil {
			return out, err
		}
	}
	for _, g := range b.groups {
		if a.newest { // the lowest score is moved first, as ever
			slices.Reverse(g.Members)
			slices.Reverse(g.Payloads)
		}
	}
	if err := b.apply(ctx); err != nil {
		return b.out, err
	}
	if b.tried > 0 && b.out == (Promoted{}) && b.stay == 0 { // somebody else works through the same backlog
		cur.leave()
		return b.out, nil
	}
	b.out.More = f.more
	if again := cur.end(now, got.now, b.stay, f.more); !f.more {
		b.out.Next = earliest(f.next, again)
	}
	return b.out, nil
}
