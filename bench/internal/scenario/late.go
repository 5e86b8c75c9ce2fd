package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/progress"
	"github.com/troupehq/troupe/bench/internal/result"
	"github.com/troupehq/troupe/internal/job"
)

// Jobs are scheduled so long ahead, by ZADD as any client of Sidekiq does it.
const (
	lateAhead = 500 * time.Millisecond
	lateSpan  = 5 * time.Second
)

var lateQueues = []contender.Queue{{Name: "critical", Weight: 1}, {Name: "default", Weight: 1}}

// runLate measures how long after its time a scheduled job starts: in a process without
// other work, and beside as many retries that are due as Failures has jobs. These are of
// another queue: who waits behind them in theirs is as late as that is long.
func runLate(ctx context.Context, l *Lab) error {
	for range l.Size.Rounds {
		for _, retries := range []int{0, l.Size.Fail} {
			for _, c := range l.contenders("troupe") {
				if err := l.late(ctx, c, retries); err != nil {
					return fmt.Errorf("late, beside %d retries, %s: %w", retries, c.Name, err)
				}
			}
		}
	}
	return nil
}

func (l *Lab) late(ctx context.Context, c contender.Contender, retries int) error {
	st, err := l.open(ctx, c.Format, contender.Load{})
	if err != nil {
		return err
	}
	defer st.close()
	n := l.Size.Pushes
	f, err := l.fleet(c, st, "", contender.Work{Concurrency: 25, Queues: lateQueues}, 1, n+retries)
	if err != nil {
		return err
	}
	defer f.stop()
	if err := f.ready(ctx, 1); err != nil {
		return err
	}
	if err := pause(ctx, l.Size.Settle); err != nil {
		return err
	}
	add := func(set, queue string, first, n int, at func() time.Duration) error {
		for i := 0; i < n; i += 1000 {
			members := make([]redis.Z, min(1000, n-i))
			for k := range members {
				d := at()
				t := contender.Task{Index: int64(first + i + k), At: progress.Now() + d.Nanoseconds()}
				score := float64(time.Now().Add(d).UnixMicro()) / 1e6
				members[k] = redis.Z{Score: score, Member: strings.Replace(contender.Bytes(t, job.NewID(), time.Now()), "default", queue, 1)}
			}
			if err := st.Redis.ZAdd(ctx, set, members...).Err(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add("retry", "default", n, retries, func() time.Duration { return lateSpan / 2 }); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, uint64(n)))
	ahead := func() time.Duration { return lateAhead + time.Duration(r.Int64N(int64(lateSpan))) }
	if err := add("schedule", "critical", 0, n, ahead); err != nil {
		return err
	}
	all := func() (bool, error) { return f.progress.Done() >= int64(n+retries), nil }
	if err := f.until(ctx, time.Millisecond, "all jobs", all); err != nil {
		return err
	}
	lates, err := micros(f.progress.Samples(n))
	if err != nil {
		return err
	}
	kase := "alone"
	if retries > 0 {
		kase = "beside " + result.Count(retries) + " due retries"
	}
	row := l.Set.Row(result.Late, kase, c.Name, n)
	for p, m := range map[float64]result.Metric{50: result.P50, 99: result.P99, 100: result.Max} {
		row.Add(m, result.Percentile(lates, p))
	}
	l.say("%-12s %-27s %-12s p99 %s µs", result.Late, kase, c.Name, result.Format(result.Percentile(lates, 99)))
	return nil
}
