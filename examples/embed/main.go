// Command embed runs the daemon inside a service that has its own main, logger
// and Redis client.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
)

// A raw handler sees the payload as it is.
func audit(log zerolog.Logger) troupe.HandlerFunc {
	return func(_ context.Context, p *troupe.Payload) error {
		var args []any
		if err := json.Unmarshal(p.Args(), &args); err != nil {
			return err
		}
		log.Info().Str("jid", p.JID()).Int("args", len(args)).Msg("audit")
		return nil
	}
}

// timed is a middleware: a function from handler to handler, as in net/http.
func timed(log zerolog.Logger) troupe.Middleware {
	return func(next troupe.Handler) troupe.Handler {
		return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
			start := time.Now()
			err := next.Perform(ctx, p)
			log.Debug().Str("jid", p.JID()).Dur("took", time.Since(start)).Err(err).Msg("timed")
			return err
		})
	}
}

func main() {
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379/0"))
	if err != nil {
		log.Fatal().Err(err).Msg("REDIS_URL")
	}
	rdb := redis.NewClient(options)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	var jobs troupe.Registry
	troupe.HandleClass(&jobs, "Audit", audit(log), troupe.ClassOptions{
		Retry: troupe.RetryTimes(3), Timeout: time.Minute,
	})

	server := &http.Server{Addr: cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080"), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.ListenAndServe() }()

	// Cancelling ctx starts the graceful stop; Run returns when it is over.
	err = actors.Run(ctx, actors.Config{
		Redis:      rdb, // its options are used; the daemon opens connections of its own
		Registry:   &jobs,
		Logger:     log,
		Embedded:   true, // Sidekiq's UI then offers no Stop button
		Middleware: []troupe.Middleware{timed(log)},
		DeathHandlers: []actors.DeathHandler{func(_ context.Context, p *troupe.Payload, err error) {
			log.Error().Str("jid", p.JID()).Err(err).Msg("this job will not run again")
		}},
		On: actors.Events{
			Quiet: []func(context.Context){func(context.Context) { log.Info().Msg("no new jobs") }},
		},
	})
	_ = server.Shutdown(context.WithoutCancel(ctx))
	if err != nil {
		log.Fatal().Err(err).Msg("troupe")
	}
}
