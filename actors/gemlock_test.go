package actors_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// A lock that the gem sidekiq-unique-jobs has taken for a job of Ruby's is freed as that gem does it, by the end of the job or its
// start, and only if the job holds it. The keys are those that version 8.1.0 writes.
func TestALockOfTheGemEndsWithItsJob(t *testing.T) {
	const digest = "uniquejobs:9cbdc34523cc50e5742bc4b854829a12"
	for name, c := range map[string]struct {
		lock   string
		err    error
		holder string
		held   int64 // holders after the run
		atRun  int64 // and during it
	}{
		"done":                     {"until_executed", nil, "j1", 0, 1},
		"dead":                     {"until_executed", troupe.Kill(errors.New("no")), "j1", 0, 1},
		"to be retried":            {"until_executed", errors.New("no"), "j1", 1, 1},
		"of another job":           {"until_executed", nil, "j2", 1, 1},
		"executing":                {"until_executing", nil, "j1", 0, 0},
		"and while executing":      {"until_and_while_executing", nil, "j1", 0, 0},
		"expired":                  {"until_expired", nil, "j1", 1, 1},
		"while executing, no lock": {"while_executing", nil, "j1", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Redis(t)
			rdb.HSet(ctx, digest+":LOCKED", c.holder, "1795224881.5")
			rdb.Set(ctx, digest, c.holder, 0)
			rdb.ZAdd(ctx, "uniquejobs:digests", redis.Z{Score: 1, Member: digest}, redis.Z{Score: 1, Member: "uniquejobs:other"})
			var during atomic.Int64
			during.Store(-1)
			var r troupe.Registry
			troupe.HandleClass(&r, "One", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
				during.Store(rdb.HLen(ctx, digest+":LOCKED").Val())
				return c.err
			}))
			raw := fmt.Sprintf(`{"retry":true,"queue":"default","lock":%q,"args":[1,"x"],"class":"One","jid":"j1","created_at":1795224881.5,"lock_timeout":0,"lock_ttl":null,"lock_prefix":"uniquejobs","lock_args":[1,"x"],"lock_digest":%q,"enqueued_at":1795224881.5}`, c.lock, digest)
			harness.OK(t, rdb.LPush(ctx, "queue:default", raw).Err())
			k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Queues: fetch.Strict{"default"}}}})
			k.Await("it has run", func() bool { return during.Load() >= 0 && k.Settled() })
			k.Stop()
			harness.Equal(t, "holders during the run", during.Load(), c.atRun)
			harness.Equal(t, "holders after the run", rdb.HLen(ctx, digest+":LOCKED").Val(), c.held)
			harness.Equal(t, "the digest is there", rdb.Exists(ctx, digest).Val(), c.held)
			harness.Equal(t, "digests", rdb.ZCard(ctx, "uniquejobs:digests").Val(), c.held+1)
			harness.Equal(t, "waiters are told", rdb.LLen(ctx, digest+":QUEUED").Val(), 1-c.held)
		})
	}
}
