package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/moving"
)

// Stats are the numbers that cost one round trip, whatever there is in Redis.
type Stats struct {
	Processed int64 // executions since the last ResetStats, failed ones included
	Failed    int64

	ScheduledSize int64
	RetrySize     int64
	DeadSize      int64
	ProcessesSize int64 // dead ones that are not yet cleaned up included

	// DefaultQueueLatency is Queue.Latency of the queue default.
	DefaultQueueLatency time.Duration
}

// Stats returns the fast numbers.
func (i *Inspector) Stats(ctx context.Context) (Stats, error) {
	processed, failed := redis.NewStringCmd(ctx, "get", keys.StatProcessed), redis.NewStringCmd(ctx, "get", keys.StatFailed)
	scheduled, retries := redis.NewIntCmd(ctx, "zcard", keys.Schedule), redis.NewIntCmd(ctx, "zcard", keys.Retry)
	dead, processes := redis.NewIntCmd(ctx, "zcard", keys.Dead), redis.NewIntCmd(ctx, "scard", keys.Processes)
	oldest := redis.NewStringCmd(ctx, "lindex", keys.Queue("default"), -1)
	if err := i.pipelined(ctx, []redis.Cmder{processed, failed, scheduled, retries, dead, processes, oldest}); err != nil {
		return Stats{}, fmt.Errorf("read stats: %w", err)
	}
	return Stats{
		Processed: number(processed.Val()), Failed: number(failed.Val()),
		ScheduledSize: scheduled.Val(), RetrySize: retries.Val(), DeadSize: dead.Val(), ProcessesSize: processes.Val(),
		DefaultQueueLatency: latencyOf(oldest.Val()),
	}, nil
}

// SlowStats are the numbers that cost a command for each process and queue.
type SlowStats struct {
	WorkersSize int64 // jobs that run now, as of the last heartbeats
	Enqueued    int64 // jobs in all queues of the set queues
}

// SlowStats returns the slow numbers.
func (i *Inspector) SlowStats(ctx context.Context) (SlowStats, error) {
	ids, err := i.members(ctx, keys.Processes)
	var queues []string
	if err == nil {
		queues, err = i.members(ctx, keys.Queues)
	}
	cmds := make([]redis.Cmder, 0, len(ids)+len(queues))
	for _, id := range ids {
		cmds = append(cmds, redis.NewStringCmd(ctx, "hget", id, "busy"))
	}
	for _, q := range queues {
		cmds = append(cmds, redis.NewIntCmd(ctx, "llen", i.Queue(q).key()))
	}
	if err == nil {
		err = i.pipelined(ctx, cmds)
	}
	if err != nil {
		return SlowStats{}, fmt.Errorf("read stats: %w", err)
	}
	var s SlowStats
	for _, cmd := range cmds {
		switch cmd := cmd.(type) {
		case *redis.StringCmd:
			s.WorkersSize += number(cmd.Val())
		case *redis.IntCmd:
			s.Enqueued += cmd.Val()
		}
	}
	return s, nil
}

// Stat is a total that can be reset.
type Stat string

// The two totals.
const (
	Processed Stat = "processed"
	Failed    Stat = "failed"
)

// ResetStats sets totals to 0, both if none is named. The days of the History
// stay.
func (i *Inspector) ResetStats(ctx context.Context, which ...Stat) error {
	if len(which) == 0 {
		which = []Stat{Failed, Processed}
	}
	var pairs []any
	for _, s := range which {
		if s != Processed && s != Failed {
			return fmt.Errorf("reset stats: got %q, want %q or %q", string(s), string(Processed), string(Failed))
		}
		pairs = append(pairs, "stat:"+string(s), 0)
	}
	reset := func() error { return i.rdb.MSet(ctx, pairs...).Err() }
	if moving.Needed(i.rdb) {
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

// MaxHistory is how many days Redis remembers.
const MaxHistory = 5 * 365

// History returns the totals of 1 to MaxHistory days, the newest first, back
// from the UTC day of last (the zero time means now). A day of which Redis
// knows nothing has zeros.
func (i *Inspector) History(ctx context.Context, days int, last time.Time) ([]DayStats, error) {
	if days < 1 || days > MaxHistory {
		return nil, fmt.Errorf("read history: got %d days, want 1 to %d", days, MaxHistory)
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
	if moving.Needed(i.rdb) {
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
