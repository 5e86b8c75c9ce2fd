// Command embed is a web service with a job daemon inside: one program, one main,
// one set of signal handlers. POST /orders answers at once and leaves the work to
// a job, which this process or any other one runs; GET /health looks at the tree.
//
// The order of the end is what such a program must get right:
//
//	signal → /health says no → requests end, with their pushes → jobs end → exit
//
// A second signal ends it at once. The jobs that ran are then put back by another
// process, or by this one when it is started again.
package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
)

func main() { os.Exit(run()) }

func run() int {
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379/0"))
	if err != nil {
		log.Error().Err(err).Msg("REDIS_URL")
		return actors.ExitBoot
	}
	rdb := redis.NewClient(options)
	defer func() { _ = rdb.Close() }()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // after the first signal the second one has its old meaning

	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080"))
	if err != nil {
		log.Error().Err(err).Msg("ADDR")
		return actors.ExitBoot
	}
	s := newService(rdb, log, ship)
	if err := s.run(ctx, listener); err != nil {
		log.Error().Err(err).Msg("stopped")
		if errors.Is(err, errGaveUp) {
			return actors.ExitEscalation
		}
		return actors.ExitBoot
	}
	return actors.ExitOK
}

// ship stands for the real work.
func ship(ctx context.Context, _ Order) error {
	select {
	case <-time.After(100 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
