package contender

import (
	"context"
	"fmt"
	"io"
	"log"
	"strconv"

	"github.com/bitly/go-simplejson"
	workers2 "github.com/digitalocean/go-workers2"
	workers "github.com/jrallison/go-workers"
)

// goWorkersFormat is Sidekiq's lists, and the in-progress lists of go-workers beside them.
var goWorkersFormat = Format{Name: "go-workers", Fill: fillSidekiq, Left: leftGoWorkers, Failed: failedGoWorkers}

// goWorkersProcess is the name of the one process.
const goWorkersProcess = "bench"

func goWorkersPeer() Contender {
	return Contender{
		Name: "go-workers", About: "jrallison/go-workers, its middleware without the one that logs each job; the in-progress list is recovered at its next start only",
		Slow: true, Format: goWorkersFormat, Serve: serveGoWorkers,
	}
}

func goWorkers2Peer() Contender {
	return Contender{
		Name: "go-workers2", About: "digitalocean/go-workers2 0.11.1, its middleware without the one that logs each job; the same",
		Slow: true, Format: goWorkersFormat, Serve: serveGoWorkers2,
	}
}

func serveGoWorkers(ctx context.Context, s *Session) error {
	workers.Logger = log.New(io.Discard, "", 0)
	workers.Configure(map[string]string{"server": s.Redis, "process": goWorkersProcess, "pool": strconv.Itoa(s.Concurrency + 5)})
	workers.Middleware = workers.NewMiddleware(&workers.MiddlewareRetry{}, &workers.MiddlewareStats{})
	for _, q := range s.Work.Queues {
		workers.Process(q.Name, func(m *workers.Msg) {
			if err := s.Perform(task(m.Args().GetIndex)); err != nil {
				panic(err)
			}
		}, s.Concurrency)
	}
	workers.Start()
	s.Progress.Ready()
	<-ctx.Done()
	return ctx.Err()
}

func serveGoWorkers2(ctx context.Context, s *Session) error {
	quiet := log.New(io.Discard, "", 0)
	m, err := workers2.NewManager(workers2.Options{
		ServerAddr: s.Redis, ProcessID: goWorkersProcess, PoolSize: s.Concurrency + 5, Logger: quiet,
	})
	if err != nil {
		return err
	}
	for _, q := range s.Work.Queues {
		m.AddWorker(q.Name, s.Concurrency, func(m *workers2.Msg) error { return s.Perform(task(m.Args().GetIndex)) },
			workers2.RetryMiddleware, workers2.StatsMiddleware)
	}
	s.Progress.Ready()
	m.Run()
	return ctx.Err()
}

// task reads a job's arguments, which both have parsed already.
func task(arg func(int) *simplejson.Json) Task {
	return Task{Index: arg(0).MustInt64(), At: arg(1).MustInt64(), Sleep: arg(2).MustInt64()}
}

func leftGoWorkers(ctx context.Context, st Store) (int64, error) {
	left, err := leftSidekiq(ctx, st)
	if err != nil {
		return 0, err
	}
	lists, err := st.Redis.Keys(ctx, fmt.Sprintf("queue:*:%s:inprogress", goWorkersProcess)).Result()
	for _, key := range lists {
		n, err := st.Redis.LLen(ctx, key).Result()
		if err != nil {
			return 0, err
		}
		left += n
	}
	return left, err
}

func failedGoWorkers(ctx context.Context, st Store) (int64, error) {
	return st.Redis.ZCard(ctx, "goretry").Result()
}
