package sched

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/moving"
	"github.com/troupehq/troupe/internal/script"
)

// Promoted is what one batch did.
type Promoted struct {
	Moved   int // now in their queues
	Buried  int // were no valid jobs; now in the dead set, bytes unchanged
	Dropped int // stopped by client middleware; gone, as with Ruby's poller

	// More: call again at once. Else Next is when: the time of the first entry
	// that is not due yet, or of another try with one that could not be moved;
	// zero means that nothing waits.
	More bool
	Next time.Time
}

//go:embed promote.lua
var promoteSource string

var promoteScript = script.New("promote", promoteSource)

// Promote moves one batch of the entries of set that are due by this machine's
// clock. On an error the counts hold for what was moved all the same. Faults
// of single members are logged, not returned; see Config.Logger.
func (s *Scheduler) Promote(ctx context.Context, set Set) (Promoted, error) {
	cur, err := s.cursor(set)
	if err != nil {
		return Promoted{}, err
	}
	now := time.Now()
	offset, limit := cur.begin(now, s.cfg.Batch)
	if moving.Needed(s.cfg.Redis) {
		if _, err := moving.Abandoned(ctx, s.cfg.Redis, string(set)); err != nil {
			return Promoted{}, fmt.Errorf("promote %s: %w", set, err)
		}
	}
	due, next, err := s.peek(ctx, set, now, offset, limit)
	if err != nil {
		return Promoted{}, fmt.Errorf("promote %s: %w", set, err)
	}
	b := batch{s: s, set: set, cur: cur, now: now}
	size := 0
	for _, member := range due {
		size += len(member)
		if err := b.sort(ctx, member); err != nil {
			return Promoted{}, fmt.Errorf("promote %s: %w", set, err)
		}
	}
	cur.attempt("")
	out, err := b.apply(ctx)
	if err != nil {
		return out, fmt.Errorf("promote %s: %w", set, err)
	}
	out.More = len(due) == limit && !b.beaten(out)
	again := cur.end(now, len(due), size, b.stay, s.cfg.Batch, out.More)
	switch {
	case out.More:
	case b.beaten(out):
		// Somebody else works through the same backlog. Leave it to them, but look
		// whether they go on.
		out.Next = now.Add(20*time.Millisecond + time.Duration(jitter.Rand(s.cfg.Identity, string(set)).Int64N(int64(50*time.Millisecond))))
	default:
		out.Next = earliest(s.delayed(next), again)
	}
	return out, nil
}

// promoteTimeout bounds each of the two round trips, whatever time-outs the client
// has: on a connection whose other end is gone they could last much longer than the
// outage. Client middleware runs between them and takes its own time.
const promoteTimeout = 10 * time.Second

// peek returns the first members that are due, from offset on, and when the
// first one that is not due will be.
func (s *Scheduler) peek(ctx context.Context, set Set, now time.Time, offset, limit int) ([]string, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, promoteTimeout)
	defer cancel()
	score := troupe.FormatScore(troupe.Score(now))
	pipe := s.cfg.Redis.Pipeline()
	due := pipe.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: string(set), Start: "-inf", Stop: score, ByScore: true, Offset: int64(offset), Count: int64(limit),
	})
	later := pipe.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
		Key: string(set), Start: "(" + score, Stop: "+inf", ByScore: true, Count: 1,
	})
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, time.Time{}, err
	}
	var next time.Time
	if first := later.Val(); len(first) > 0 {
		next = timeOf(first[0].Score)
	}
	return due.Val(), next, nil
}
