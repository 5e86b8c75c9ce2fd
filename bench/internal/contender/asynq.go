package contender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqPeer is asynq as its documentation sets it up, logs at error. It keeps a
// process-wide rate by itself; nothing in its options makes it faster.
func asynqPeer() Contender {
	return Contender{
		Name: "asynq", About: "hibiken/asynq 0.26, logs at error; scheduled tasks and empty queues polled every ms where that helps it",
		Slow:   true,
		Format: Format{Name: "asynq", Fill: fillAsynq, Left: leftAsynq, Failed: failedAsynq},
		Serve:  serveAsynq, Push: pushAsynq,
	}
}

func serveAsynq(ctx context.Context, s *Session) error {
	queues := map[string]int{}
	for _, q := range s.Work.Queues {
		queues[q.Name] = max(1, q.Weight)
	}
	cfg := asynq.Config{Concurrency: s.Concurrency, Queues: queues, LogLevel: asynq.ErrorLevel}
	if s.Fail {
		cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return retryIn }
	}
	if s.FastPoll {
		cfg.TaskCheckInterval, cfg.DelayedTaskCheckInterval = time.Millisecond, time.Millisecond
	}
	if s.AtOnce > 0 {
		cfg.TaskCheckInterval, cfg.DelayedTaskCheckInterval = noRoomPoll, noRoomPoll
		cfg.IsFailure = func(err error) bool { return !errors.Is(err, errNoRoom) }
		cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return noRoomIn }
	}
	mux := asynq.NewServeMux()
	pusher := asynq.NewClient(asynq.RedisClientOpt{Addr: s.Redis, PoolSize: pushers})
	mux.HandleFunc(class, func(ctx context.Context, task *asynq.Task) error {
		var t Task
		if err := json.Unmarshal(task.Payload(), &t); err != nil {
			return err
		}
		for child := range t.children { // it has no push of many
			task, err := asynqTask(child)
			if err == nil {
				_, err = pusher.EnqueueContext(ctx, task)
			}
			if err != nil {
				return err
			}
		}
		return s.Perform(t)
	})
	mux.Use(func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error { return next.ProcessTask(ctx, t) })
	})
	if s.AtOnce > 0 {
		rdb := redis.NewClient(&redis.Options{Addr: s.Redis, PoolSize: s.Concurrency})
		mux.Use(func(next asynq.Handler) asynq.Handler { return s.limited(rdb, next) })
	}
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: s.Redis}, cfg)
	if err := server.Start(mux); err != nil {
		return err
	}
	s.Progress.Ready()
	<-ctx.Done()
	return ctx.Err()
}

func asynqTask(t Task) (*asynq.Task, error) {
	text, err := json.Marshal(t)
	return asynq.NewTask(class, text), err
}

func fillAsynq(ctx context.Context, st Store, l Load) error {
	c := asynq.NewClientFromRedisClient(st.Redis)
	for i, queue := range l.Queues {
		opts := []asynq.Option{asynq.Queue(queue)}
		if l.Due || l.Waiting {
			opts = append(opts, asynq.ProcessIn(365*24*time.Hour))
		}
		tasks := make(chan Task, pushers)
		errs := make(chan error, pushers)
		var wg sync.WaitGroup
		for range pushers {
			wg.Go(func() {
				for t := range tasks {
					task, err := asynqTask(t)
					if err == nil {
						_, err = c.EnqueueContext(ctx, task, opts...)
					}
					if err != nil {
						select {
						case errs <- err:
						default:
						}
					}
				}
			})
		}
		for t := range l.tasks(l.share(i)) {
			tasks <- t
		}
		close(tasks)
		wg.Wait()
		select {
		case err := <-errs:
			return err
		default:
		}
		if l.Due {
			if err := st.makeDue(ctx, fmt.Sprintf("asynq:{%s}:scheduled", queue)); err != nil {
				return err
			}
		}
	}
	return nil
}

func leftAsynq(ctx context.Context, st Store) (left int64, err error) {
	queues, err := st.Redis.SMembers(ctx, "asynq:queues").Result()
	for _, q := range queues {
		for _, list := range []string{"pending", "active"} {
			n, err := st.Redis.LLen(ctx, fmt.Sprintf("asynq:{%s}:%s", q, list)).Result()
			if err != nil {
				return 0, err
			}
			left += n
		}
	}
	return left, err
}

func failedAsynq(ctx context.Context, st Store) (int64, error) {
	return st.Redis.ZCard(ctx, "asynq:{default}:retry").Result()
}

func pushAsynq(ctx context.Context, s *Session) error {
	c := asynq.NewClient(asynq.RedisClientOpt{Addr: s.Redis, PoolSize: pushers})
	return s.each(ctx, func(ctx context.Context, i int) error {
		task, err := asynqTask(Task{Index: int64(i)})
		if err == nil {
			_, err = c.EnqueueContext(ctx, task)
		}
		return err
	})
}
