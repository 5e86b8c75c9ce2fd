package contender

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/job"
)

// What can be had by hand with go-redis: goroutines that take one job at a time,
// look at three numbers of it, and do nothing else that a job system does.

// Pipeline is the bare loop's name when it pushes: SADD and LPUSH, as Sidekiq's
// clients do.
const Pipeline = "pipeline"

func brpop() Contender {
	return Contender{
		Name: "brpop", About: "bare go-redis loops over BRPOP; loses the jobs of a killed process",
		Format: sidekiqFormat, Serve: serveBRPop, Push: pushPipeline, Pusher: Pipeline,
	}
}

func blmove() Contender {
	return Contender{
		Name: "blmove", About: "bare go-redis loops over BLMOVE and LREM; nobody recovers the private list",
		Format: sidekiqFormat, Serve: serveBLMove, Slow: true,
	}
}

func (s *Session) redis(conns int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Redis, PoolSize: conns, MaxRetries: -1})
}

func (s *Session) keys() (keys []string) {
	for _, q := range s.Work.Queues {
		keys = append(keys, "queue:"+q.Name)
	}
	return keys
}

// loops runs one in each of the session's goroutines until it fails.
func (s *Session) loops(one func() error) error {
	s.Progress.Ready()
	errs := make(chan error)
	for range s.Concurrency {
		go func() {
			for {
				if err := one(); err != nil && !errors.Is(err, redis.Nil) {
					errs <- err
				}
			}
		}()
	}
	return <-errs
}

func serveBRPop(ctx context.Context, s *Session) error {
	rdb, keys := s.redis(s.Concurrency+1), s.keys()
	return s.loops(func() error {
		got, err := rdb.BRPop(ctx, 5*time.Second, keys...).Result()
		if err != nil {
			return err
		}
		return s.Perform(glance(got[1]))
	})
}

func serveBLMove(ctx context.Context, s *Session) error {
	rdb, queue := s.redis(s.Concurrency+1), s.keys()[0]
	mine := private + strconv.Itoa(os.Getpid())
	return s.loops(func() error {
		got, err := rdb.BLMove(ctx, queue, mine, "RIGHT", "LEFT", 5*time.Second).Result()
		if err != nil {
			return err
		}
		if err := s.Perform(glance(got)); err != nil {
			return err
		}
		return rdb.LRem(ctx, mine, -1, got).Err()
	})
}

// glance reads the numbers of a task and nothing else.
func glance(job string) (t Task) {
	_, rest, _ := strings.Cut(job, `"args":[`)
	for _, field := range []*int64{&t.Index, &t.At, &t.Sleep} {
		var number string
		number, rest, _ = strings.Cut(rest, ",")
		*field, _ = strconv.ParseInt(number, 10, 64)
	}
	return t
}

// Bytes is a job as a client would push it.
func Bytes(t Task, jid string, now time.Time) string {
	at := float64(now.UnixMicro()) / 1e6
	return fmt.Sprintf(`{"retry":true,"queue":"default","class":%q,"args":[%d,%d,%d,%q],"jid":%q,"created_at":%.6f,"enqueued_at":%.6f}`,
		class, t.Index, t.At, t.Sleep, t.Pad, jid, at, at)
}

// pushPipeline is the round trip that Sidekiq's clients make: SADD and LPUSH.
func pushPipeline(ctx context.Context, s *Session) error {
	rdb := s.redis(pushers)
	if s.Work.Push.Mode == Bulk {
		return pushVariadic(ctx, s, rdb)
	}
	return s.each(ctx, func(ctx context.Context, i int) error {
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.SAdd(ctx, "queues", "default")
			p.LPush(ctx, "queue:default", Bytes(Task{Index: int64(i)}, job.NewID(), time.Now()))
			return nil
		})
		return err
	})
}

func pushVariadic(ctx context.Context, s *Session, rdb *redis.Client) error {
	for i := 0; i < s.Work.Push.Jobs; i += bulk {
		n := min(bulk, s.Work.Push.Jobs-i)
		jobs := make([]any, n)
		for k := range jobs {
			jobs[k] = Bytes(Task{Index: int64(i + k)}, job.NewID(), time.Now())
		}
		if _, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.SAdd(ctx, "queues", "default")
			p.LPush(ctx, "queue:default", jobs...)
			return nil
		}); err != nil {
			return err
		}
		s.Progress.Add(int64(n))
	}
	return nil
}
