// Package env is what all parts of a daemon work in: its logger, its Redis, its actors, and
// whether Redis is away.
package env

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/jitter"
)

// Env is the environment of a daemon's parts. Its fields do not change once it runs; all
// that they point to is safe for concurrent use.
type Env struct {
	Log      zerolog.Logger
	Redis    redis.UniversalClient // the daemon's own
	Identity string
	Seed     jitter.Seed // of the identity
	System   *supervised.System
	Outage   *Outage
	Leases   *Leases
	Changes  *supervised.Broadcast // woken when a job, a fetch or a worker has ended
	Settling context.Context       // ends when nothing is settled any more
}

// CallTime bounds one call to Redis, whatever the client's own time-outs are.
const CallTime = 10 * time.Second

// Call is the context of one call to Redis.
func (e *Env) Call() (context.Context, context.CancelFunc) { return Within(context.Background()) }

// Within is the context of one call to Redis that ends with ctx.
func Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, CallTime)
}

// Pause waits between two tries: 100 ms doubled up to 2 s, half of it random, so that a
// fleet does not come back in step. False when ctx ended. what names who waits.
func (e *Env) Pause(ctx context.Context, what string, try int) bool {
	wait := jitter.Doubled(100*time.Millisecond, 2*time.Second, try)
	t := time.NewTimer(jitter.Half(wait, e.Identity, what))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Backoff is the wait between two tries of a fetch: 1 s as in Sidekiq after the first, with
// half of it random; the very first is short, since most errors are one broken connection.
func (e *Env) Backoff(what string, try int) time.Duration {
	wait := time.Second
	if try == 0 {
		wait = 50 * time.Millisecond
	}
	return jitter.Half(wait, e.Identity, what)
}
