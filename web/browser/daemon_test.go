package browser

import (
	"context"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
)

// daemonEnv is the URL of the database of a daemon; leaseEnv is its lease.
const (
	daemonEnv = "TROUPE_BROWSER_DAEMON"
	leaseEnv  = "TROUPE_BROWSER_LEASE"
)

// daemonMain is the program of a daemon with one class, on the queue held, whose jobs run until they are cancelled.
func daemonMain(url string) int {
	options, err := redis.ParseURL(url)
	if err != nil {
		return 3
	}
	lease, _ := time.ParseDuration(os.Getenv(leaseEnv)) // without one it is that of the daemon
	var jobs troupe.Registry
	troupe.HandleClass(&jobs, "Held", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error { <-ctx.Done(); return ctx.Err() }))
	return actors.Main(actors.Config{
		Redis: redis.NewClient(options), Registry: &jobs, Concurrency: 2, Queues: actors.Weighted{"held": 1}, Lease: lease, Tag: "shop",
		Logger: zerolog.New(os.Stderr).With().Timestamp().Logger(), Timeout: time.Second,
	})
}
