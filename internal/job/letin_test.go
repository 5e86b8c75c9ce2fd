package job_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// While Redis is out of memory it refuses to note when a rule is looked at next. The leader is told to wait all the same, and not to
// ask again at once.
func TestLeaderWaitsWhileRedisIsOutOfMemory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Alone(t).Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	base := keys.LimitBase("a", true)
	harness.Must(job.DefineLimits(ctx, rdb, base, job.DefineStart, map[string]string{"api": "1000 0 breaker 1 60"}))(t)
	harness.OK(t, rdb.ZAdd(ctx, keys.Held(base, "api"), redis.Z{Score: 1, Member: "1 [\"queue:a\",\"\",\"j1\",\"api\"]\n{}"}).Err())
	for i := range 16 { // are let in and have not started: no more may be
		harness.OK(t, rdb.ZAdd(ctx, keys.Slots(base, "api"), redis.Z{Score: 1e12, Member: i}).Err())
	}
	harness.OK(t, rdb.ZAdd(ctx, keys.HeldRules(base), redis.Z{Score: 1, Member: "api"}).Err())
	harness.OK(t, rdb.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	harness.OK(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	look := func() time.Duration {
		t.Helper()
		n, next, err := job.LetIn(ctx, rdb, base, 100)
		harness.OK(t, err)
		harness.Equal(t, "let in", n, 0)
		return next
	}
	for range 2 {
		if next := look(); next < time.Second || next > 5*time.Second {
			t.Errorf("the next look is in %s, expected 1 s to 5 s", next)
		}
	}
	harness.Equal(t, "is still due at", rdb.ZScore(ctx, keys.HeldRules(base), "api").Val(), 1)
	harness.OK(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
	if look(); rdb.ZScore(ctx, keys.HeldRules(base), "api").Val() == 1 {
		t.Error("it is not looked at when there is memory again")
	}
}
