package contender

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/osproc"
)

// Troupe is the daemon in its default configuration; adjust changes what its
// workers are told.
func Troupe(name, about string, adjust func(*Work)) Contender {
	serve := func(ctx context.Context, s *Session) error {
		if adjust != nil {
			adjust(&s.Work)
		}
		return serveTroupe(ctx, s)
	}
	return Contender{Name: name, About: about, Format: sidekiqFormat, Serve: serve, Push: pushTroupe}
}

func serveTroupe(ctx context.Context, s *Session) error {
	osproc.FloorHeap() // as actors.Main does
	file, level := os.Stderr, zerolog.WarnLevel
	if s.InfoLog {
		f, err := os.Create(s.Log)
		if err != nil {
			return err
		}
		file, level = f, zerolog.InfoLevel
	}
	out := logs.New(file) // as the command does
	defer out.Flush()
	daemons := max(1, s.Daemons)
	errs := make([]error, daemons)
	var wg sync.WaitGroup
	for i := range daemons {
		wg.Go(func() { errs[i] = actors.Run(ctx, s.config(zerolog.New(out).Level(level).With().Timestamp().Logger())) })
	}
	wg.Wait()
	return errors.Join(append(errs, errors.New("the daemon has stopped"))...)
}

func (s *Session) config(log zerolog.Logger) actors.Config {
	var jobs troupe.Registry
	var options troupe.Options
	if s.Fail {
		options.RetryIn = func(int, error, *troupe.Payload) troupe.Delay { return troupe.Delay(retryIn) }
	}
	var subscribers []func(event.Event)
	if s.AtOnce > 0 {
		options.Limits = []troupe.Limit{{Name: "bench", AtOnce: s.AtOnce}}
		subscribers = append(subscribers, func(e event.Event) {
			if _, ok := e.(event.JobHeld); ok {
				s.Progress.Refuse()
			}
		})
	}
	if s.Raw {
		troupe.HandleClass(&jobs, class, troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
			return s.Perform(Task{})
		}), options)
	} else {
		troupe.Handle(&jobs, func(ctx context.Context, job *troupe.Job[Task]) error {
			if job.Args.Fan > 0 {
				if _, err := client.PushBulk(ctx, client.Within(ctx), job.Args.children); err != nil {
					return err
				}
			}
			return s.Perform(job.Args)
		}, options)
	}
	return actors.Config{
		Redis:    redis.NewClient(&redis.Options{Addr: s.Redis}),
		Registry: &jobs,
		Logger:   log, DoneLevel: zerolog.InfoLevel, // as the command does
		Capsules: []actors.Capsule{{Concurrency: s.Concurrency, Queues: s.queues()}}, Subscribers: subscribers,
		Middleware: []troupe.Middleware{func(next troupe.Handler) troupe.Handler {
			return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error { return next.Perform(ctx, p) })
		}},
		On: actors.Events{Startup: []func(context.Context) error{
			func(context.Context) error { s.Progress.Ready(); return nil },
		}},
	}
}

func (s *Session) queues() fetch.Queues {
	weighted := fetch.Weighted{}
	for _, q := range s.Work.Queues {
		if q.Weight > 0 {
			weighted[q.Name] = q.Weight
		}
	}
	if len(weighted) == len(s.Work.Queues) {
		return weighted
	}
	return fetch.Strict(s.Names())
}

func pushTroupe(ctx context.Context, s *Session) error {
	c := client.New(redis.NewClient(&redis.Options{Addr: s.Redis, PoolSize: pushers}))
	if s.Work.Push.Mode != Bulk {
		return s.each(ctx, func(ctx context.Context, i int) error {
			_, err := c.Push(ctx, Task{Index: int64(i)})
			return err
		})
	}
	_, err := client.PushBulk(ctx, c, func(yield func(Task) bool) {
		for t := range (Load{}).tasks(0, s.Work.Push.Jobs) {
			if t.Index%bulk == 0 && t.Index > 0 {
				s.Progress.Add(bulk) // the last call has returned
			}
			if !yield(t) {
				return
			}
		}
	}, client.BatchSize(bulk))
	if err == nil {
		s.Progress.Add(int64((s.Work.Push.Jobs-1)%bulk + 1))
	}
	return err
}

// bulk is the jobs of one call in a bulk push.
const bulk = 1000
