package sched_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/sched"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
)

func job(i int, queue string) string {
	return fmt.Sprintf(`{"retry":true,"queue":%q,"class":"X","args":[%d],"jid":"%024x","created_at":1795224881.5}`, queue, i, i)
}

func add(t testing.TB, rdb redis.Cmdable, set string, at time.Time, members ...string) {
	t.Helper()
	z := make([]redis.Z, len(members))
	for i, m := range members {
		z[i] = redis.Z{Score: scores.Of(at) + float64(i)*1e-3, Member: m}
	}
	for len(z) > 0 {
		n := min(len(z), 1000)
		harness.OK(t, rdb.ZAdd(context.Background(), set, z[:n]...).Err())
		z = z[n:]
	}
}

// drain promotes until nothing more is due.
func drain(t testing.TB, s *sched.Scheduler, set string) (sum sched.Promoted) {
	t.Helper()
	for {
		p := harness.Must(s.Promote(context.Background(), set))(t)
		sum.Moved += p.Moved
		sum.Dead += p.Dead
		sum.Dropped += p.Dropped
		sum.Next = p.Next
		if !p.More {
			return sum
		}
	}
}

func parse(t testing.TB, raw string) *troupe.Payload {
	t.Helper()
	p, err := troupe.ParsePayload([]byte(raw))
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return p
}

// unstamped takes enqueued_at off, after checking that it is there.
func unstamped(t testing.TB, raw string) string {
	t.Helper()
	p := parse(t, raw)
	if at, ok := p.Time("enqueued_at"); !ok || time.Since(at).Abs() > time.Minute {
		t.Errorf("enqueued_at is not fresh: %s", raw)
	}
	p.Delete("enqueued_at")
	return string(p.Bytes())
}

func dump(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
