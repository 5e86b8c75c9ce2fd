// Package chaos puts a peer under the load and the faults of make chaos.
package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/proof/chaos"
)

const class = "chaos"

// Asynq is hibiken/asynq with its defaults, recoverer and 25 retries included.
// Its lease is 30 s and cannot be set, so pauses of a few seconds do not hit it.
func Asynq() chaos.System {
	return chaos.System{Name: "asynq", Work: work, Push: push, Left: left, Final: "archived"}
}

func work(w *chaos.Worker) int {
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: w.Redis}, asynq.Config{
		Concurrency: chaos.Concurrency, LogLevel: asynq.ErrorLevel,
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc(class, func(ctx context.Context, task *asynq.Task) error {
		var t chaos.Task
		if err := json.Unmarshal(task.Payload(), &t); err != nil {
			return err
		}
		retried, _ := asynq.GetRetryCount(ctx)
		return w.Perform(ctx, t, retried == 0)
	})
	if err := server.Run(mux); err != nil { // until TERM
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func push(rdb *redis.Client) func(context.Context, chaos.Task) error {
	c := asynq.NewClientFromRedisClient(rdb)
	return func(ctx context.Context, t chaos.Task) error {
		text, err := json.Marshal(t)
		if err == nil {
			_, err = c.EnqueueContext(ctx, asynq.NewTask(class, text), asynq.TaskID(strconv.Itoa(t.N)))
		}
		return err
	}
}

// left reads the state of each task; one that has ended well has none.
func left(ctx context.Context, rdb *redis.Client) (map[int]string, error) {
	keys, err := rdb.Keys(ctx, "asynq:{default}:t:*").Result()
	if err != nil {
		return nil, err
	}
	states := make([]*redis.StringCmd, len(keys))
	_, err = rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, key := range keys {
			states[i] = pipe.HGet(ctx, key, "state")
		}
		return nil
	})
	places := map[int]string{}
	for i, key := range keys {
		n, aerr := strconv.Atoi(key[strings.LastIndexByte(key, ':')+1:])
		if aerr == nil && states[i].Err() == nil {
			places[n] = states[i].Val()
		}
	}
	if err != nil && !errors.Is(err, redis.Nil) { // one has ended meanwhile
		return nil, err
	}
	return places, nil
}
