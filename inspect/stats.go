package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// Stats are the totals of the whole database.
type Stats struct {
	Processed int64 // executions since the last ResetStats, failed ones included
	Failed    int64

	ScheduledSize int64
	RetrySize     int64
	DeadSize      int64
	HeldSize      int64 // jobs that limits hold
	ProcessesSize int64 // dead ones that are not yet cleaned up included

	WorkersSize int64 // jobs that run now, as of the last heartbeats
	Enqueued    int64 // jobs in all queues of the set queues

	// DefaultQueueLatency is the Latency of the queue default, see QueueSummary.
	DefaultQueueLatency time.Duration
}

// Stats returns the totals. It costs five round trips, in one of them a command for each
// process and queue, and a few more while limits hold jobs.
func (i *Inspector) Stats(ctx context.Context) (Stats, error) {
	ids, err := i.members(ctx, keys.Processes)
	var queues []string
	if err == nil {
		queues, err = i.members(ctx, keys.Queues)
	}
	if err != nil {
		return Stats{}, fmt.Errorf("read stats: %w", err)
	}
	processed, failed := redis.NewStringCmd(ctx, "get", keys.StatProcessed), redis.NewStringCmd(ctx, "get", keys.StatFailed)
	scheduled, retries := redis.NewIntCmd(ctx, "zcard", keys.Schedule), redis.NewIntCmd(ctx, "zcard", keys.Retry)
	dead := redis.NewIntCmd(ctx, "zcard", keys.Dead)
	cmds := []redis.Cmder{processed, failed, scheduled, retries, dead}
	busy, waiting := make([]*redis.StringCmd, len(ids)), make([]*redis.IntCmd, len(queues))
	for n, id := range ids {
		busy[n] = redis.NewStringCmd(ctx, "hget", id, "busy")
		cmds = append(cmds, busy[n])
	}
	for n, q := range queues {
		waiting[n] = redis.NewIntCmd(ctx, "llen", i.Queue(q).key())
		cmds = append(cmds, waiting[n])
	}
	oldest, err := i.firsts(ctx, fromTail, []string{keys.Queue("default")})
	if err == nil {
		err = i.pipelined(ctx, cmds)
	}
	if err != nil {
		return Stats{}, fmt.Errorf("read stats: %w", err)
	}
	held, err := i.HeldSize(ctx)
	if err != nil {
		return Stats{}, fmt.Errorf("read stats: %w", err)
	}
	s := Stats{
		Processed: number(processed.Val()), Failed: number(failed.Val()),
		ScheduledSize: scheduled.Val(), RetrySize: retries.Val(), DeadSize: dead.Val(), HeldSize: held, ProcessesSize: int64(len(ids)),
		DefaultQueueLatency: latencyOf(oldest[0]),
	}
	for _, cmd := range busy {
		s.WorkersSize += number(cmd.Val())
	}
	for _, cmd := range waiting {
		s.Enqueued += cmd.Val()
	}
	return s, nil
}

// ResetStats sets the totals "processed" and "failed" to 0, both if none is named; another
// name is an error. The days of the History stay.
func (i *Inspector) ResetStats(ctx context.Context, which ...string) error {
	if len(which) == 0 {
		which = []string{"failed", "processed"}
	}
	var pairs []any
	for _, s := range which {
		if s != "processed" && s != "failed" {
			return fmt.Errorf(`reset stats: got %q, expected "processed" or "failed"`, s)
		}
		pairs = append(pairs, "stat:"+s, 0)
	}
	reset := func() error { return i.db().MSet(ctx, pairs...).Err() }
	if redisconn.OnCluster(i.db()) {
		reset = func() error { return i.resetOnCluster(ctx, pairs) }
	}
	if err := reset(); err != nil {
		return fmt.Errorf("reset stats: %w", err)
	}
	return nil
}

// DayStats are the totals of one UTC day. A job counts on the day on which its
// process told of it, some seconds after it ended.
type DayStats struct {
	Date      time.Time // midnight UTC
	Processed int64
	Failed    int64
}

// maxHistory is how many days Redis remembers.
const maxHistory = 5 * 365

// History returns the totals of 1 to 1,825 days (Redis remembers five years), the newest
// first, back from the UTC day of last (the zero time means now). A day of which Redis knows
// nothing has zeros.
func (i *Inspector) History(ctx context.Context, days int, last time.Time) ([]DayStats, error) {
	if days < 1 || days > maxHistory {
		return nil, fmt.Errorf("read history: got %d days, expected 1 to %d", days, maxHistory)
	}
	if last.IsZero() {
		last = time.Now()
	}
	year, month, day := last.UTC().Date()
	out := make([]DayStats, days)
	processed, failed := make([]any, 1, 1+days), make([]any, 1, 1+days)
	processed[0], failed[0] = "mget", "mget"
	for n := range out {
		out[n].Date = time.Date(year, month, day-n, 0, 0, 0, 0, time.UTC)
		name := ":" + out[n].Date.Format(time.DateOnly)
		processed, failed = append(processed, keys.StatProcessed+name), append(failed, keys.StatFailed+name)
	}
	if redisconn.OnCluster(i.db()) {
		if err := i.historyOnCluster(ctx, out, processed, failed); err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		return out, nil
	}
	p, f := redis.NewSliceCmd(ctx, processed...), redis.NewSliceCmd(ctx, failed...)
	if err := i.pipelined(ctx, []redis.Cmder{p, f}); err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	for n := range out {
		count, _ := p.Val()[n].(string)
		out[n].Processed = number(count)
		count, _ = f.Val()[n].(string)
		out[n].Failed = number(count)
	}
	return out, nil
}
