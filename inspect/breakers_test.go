package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// What a breaker allows, and which of its rules rest or have failed, is told; also of those that hold nothing. A limit that is set by hand
// keeps its breaker.
func TestBreakersOfLimits(t *testing.T) {
	rdb := testkit.NewMemory(t).Client
	ctx := t.Context()
	rdb.HSet(ctx, "troupe:limits", "api", "1000 0 breaker 3 90", "bank", "7 pinned 2 breaker 0 60", "plain", "1")
	rdb.HSet(ctx, "troupe:rest:api:a", "ends", "1795000000.250000", "~j1", "1795000000.250000")
	rdb.HSet(ctx, "troupe:rest:bank", "failures", "4")
	rdb.HSet(ctx, "troupe:rest:plain", "ends", "1795000000.250000") // has no breaker
	all, _, err := inspect.New(rdb).Limits(ctx)
	harness.OK(t, err)
	var got []string
	for _, l := range all {
		text := l.Name + ": " + l.Allows.String()
		for _, r := range l.Rules {
			text += fmt.Sprintf("; %s %d %d", r.ID, r.Rests.Unix(), r.Failures)
		}
		got = append(got, text)
	}
	none := (time.Time{}).Unix()
	harness.EqualList(t, "limits", got, []string{
		"api: any number, rests for 1m30s after 3 failures in a row; api:a 1795000000 0", fmt.Sprintf("bank: 7 at once, can rest; bank %d 4", none), "plain: 1 at once",
	})
	harness.OK(t, inspect.New(rdb).SetLimit(ctx, "api", all[1].Allows))
	harness.Equal(t, "set by hand", rdb.HGet(ctx, "troupe:limits", "api").Val(), "7 breaker 3 90 pinned 1000 0 breaker 3 90")
}

// A rule rests for a time and ends its rest by hand, also one that nothing is known of; what it holds is let in then, and the leader
// is told.
func TestRestsByHand(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, i := t.Context(), inspect.New(rdb)
	rdb.HSet(ctx, "troupe:limits", "api", "1000 0 breaker 3 90", "plain", "1")
	for n := range 40 {
		rdb.ZAdd(ctx, "troupe:held:api:a", redis.Z{Score: float64(n), Member: fmt.Sprintf("1.1.%d [\"queue:q\",\"\",\"j%d\",\"api:a\"]\n{}", n, n)})
	}
	rdb.ZAdd(ctx, "troupe:held", redis.Z{Score: 9e9, Member: "api:a"})
	rule := func(id string) *inspect.LimitRule { return harness.Must(i.LimitRule(ctx, id))(t)[0].Rules[0] }
	rests := func(id string, d time.Duration, want bool) {
		t.Helper()
		began := time.Now()
		changed, err := rule(id).Rest(ctx, d)
		harness.OK(t, err)
		harness.Equal(t, "changed", changed, want)
		if until := rule(id).Rests; d > 0 && (until.Before(began.Add(d-time.Second)) || until.After(time.Now().Add(d+time.Second))) || d == 0 && !until.IsZero() {
			t.Errorf("%s rests until %v after %v", id, until, d)
		}
	}
	told := rdb.Subscribe(ctx, "troupe:wakeup")
	defer func() { _ = told.Close() }()
	harness.Must(told.Receive(ctx))(t)
	rests("api:a", 0, false)
	rests("api:a", 2*time.Hour, true)
	rests("api:a", time.Minute, true) // shorter, too
	rests("api:b", time.Hour, true)
	harness.Equal(t, "held during the rest", rdb.ZCard(ctx, "troupe:held:api:a").Val(), 40)
	rests("api:a", 0, true)
	harness.Equal(t, "the first are let in", rdb.LLen(ctx, "queue:q").Val(), 16)
	harness.Equal(t, "the leader looks", rdb.ZScore(ctx, "troupe:held", "api:a").Val(), 0)
	harness.Equal(t, "and is told", harness.Must(told.ReceiveMessage(ctx))(t).Payload, "limits")
	harness.Equal(t, "the other rests", rule("api:b").Rests.IsZero(), false)
	for _, c := range []struct {
		id   string
		d    time.Duration
		want string
	}{{"plain", time.Minute, "it has no breaker"}, {"api:a", time.Microsecond, "expected a millisecond to a year"}, {"api:a", -1, "expected a millisecond"}, {"api:a", 366 * 24 * time.Hour, "got"}} {
		if _, err := rule(c.id).Rest(ctx, c.d); err == nil || c.want != "got" && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %v: %v", c.id, c.d, err)
		}
	}
	if _, err := new(inspect.LimitRule).Rest(ctx, time.Minute); err == nil {
		t.Error("a rule that was not made by an Inspector rests")
	}
}
