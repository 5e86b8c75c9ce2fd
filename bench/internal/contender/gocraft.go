package contender

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gocraft/work"
	"github.com/gomodule/redigo/redis"

	"github.com/troupehq/troupe/internal/job"
)

const (
	gocraftSpace = "bench"
	gocraftJobs  = gocraftSpace + ":jobs:" + class
)

func gocraftPeer() Contender {
	return Contender{
		Name: "gocraft-work", About: "gocraft/work 0.5.1 as its documentation sets it up; it has one queue for each kind of job",
		Slow:   true,
		Format: Format{Name: "gocraft-work", Fill: fillGocraft, Left: leftGocraft, Failed: failedGocraft},
		Serve:  serveGocraft, Push: pushGocraft,
	}
}

func serveGocraft(ctx context.Context, s *Session) error {
	pool := s.gocraftPool(s.Concurrency + 5)
	workers := work.NewWorkerPool(struct{}{}, uint(s.Concurrency), gocraftSpace, pool) //nolint:gosec // a small number
	workers.JobWithOptions(class, work.JobOptions{MaxFails: 25, Backoff: func(*work.Job) int64 { return int64(retryIn / time.Second) }}, func(j *work.Job) error {
		return s.Perform(Task{Index: j.ArgInt64("index"), At: j.ArgInt64("at"), Sleep: j.ArgInt64("sleep")})
	})
	workers.Start()
	s.Progress.Ready()
	<-ctx.Done()
	return ctx.Err()
}

func (s *Session) gocraftPool(size int) *redis.Pool {
	return &redis.Pool{
		MaxActive: size, MaxIdle: size, Wait: true,
		Dial: func() (redis.Conn, error) { return redis.Dial("tcp", s.Redis) },
	}
}

func pushGocraft(ctx context.Context, s *Session) error {
	enqueuer := work.NewEnqueuer(gocraftSpace, s.gocraftPool(pushers))
	return s.each(ctx, func(_ context.Context, i int) error {
		_, err := enqueuer.Enqueue(class, work.Q{"index": i, "at": 0, "sleep": 0, "pad": ""})
		return err
	})
}

// fillGocraft writes what its Enqueuer writes, many at a time.
func fillGocraft(ctx context.Context, st Store, l Load) error {
	if l.Due || l.Waiting || len(l.Queues) > 1 {
		return fmt.Errorf("gocraft-work is filled with one queue of jobs for now")
	}
	if err := st.Redis.SAdd(ctx, gocraftSpace+":known_jobs", class).Err(); err != nil {
		return err
	}
	var texts []any
	flush := func() error {
		if len(texts) == 0 {
			return nil
		}
		err := st.Redis.LPush(ctx, gocraftJobs, texts...).Err()
		texts = texts[:0]
		return err
	}
	for t := range l.tasks(0, l.Jobs) {
		text, err := json.Marshal(work.Job{
			Name: class, ID: job.NewID(), EnqueuedAt: time.Now().Unix(),
			Args: map[string]any{"index": t.Index, "at": t.At, "sleep": t.Sleep, "pad": t.Pad},
		})
		if err != nil {
			return err
		}
		if texts = append(texts, text); len(texts) == 1000 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

func leftGocraft(ctx context.Context, st Store) (left int64, err error) {
	lists, err := st.Redis.Keys(ctx, gocraftJobs+":*:inprogress").Result()
	for _, key := range append(lists, gocraftJobs) {
		n, err := st.Redis.LLen(ctx, key).Result()
		if err != nil {
			return 0, err
		}
		left += n
	}
	return left, err
}

func failedGocraft(ctx context.Context, st Store) (int64, error) {
	return st.Redis.ZCard(ctx, gocraftSpace+":retry").Result()
}
