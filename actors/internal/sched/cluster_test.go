package sched_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/sched"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/moving"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

func TestOnAClusterEachJobIsPromotedOnce(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	const n = 3000
	var members []string
	for i := range n {
		members = append(members, job(i, fmt.Sprintf("q%d", i%5)))
	}
	add(t, rdb, keys.Schedule, time.Now().Add(-time.Hour), members...)
	add(t, rdb, keys.Schedule, time.Now().Add(time.Hour), job(n, "q0"))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			s := sched.New(sched.Config{Redis: rdb})
			for {
				if _, err := s.Promote(ctx, keys.Schedule); err != nil {
					t.Error(err)
					return
				}
				if rdb.ZCard(ctx, "schedule").Val() == 1 {
					return
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]int{}
	for q := range 5 {
		for _, raw := range rdb.LRange(ctx, fmt.Sprintf("queue:q%d", q), 0, -1).Val() {
			seen[unstamped(t, raw)]++
		}
	}
	for _, m := range members {
		if seen[m] != 1 {
			t.Fatalf("%s came %d times", m, seen[m])
		}
	}
	if left := rdb.ZCard(ctx, keys.Moving("schedule")).Val(); left != 0 || rdb.SCard(ctx, "queues").Val() != 5 {
		t.Errorf("%d still claimed, queues %v", left, rdb.SMembers(ctx, "queues").Val())
	}
	if p, err := sched.New(sched.Config{Redis: rdb}).Promote(ctx, keys.Schedule); err != nil || time.Until(p.Next) < time.Minute || p.Moved != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestOnAClusterADeadMoverLosesNothing(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	add(t, rdb, keys.Retry, time.Now().Add(-time.Hour), job(1, "a"), job(2, "b"))
	s := sched.New(sched.Config{Redis: rdb})
	// A mover claims the first and dies.
	rdb.ZRem(ctx, "retry", job(1, "a"))
	rdb.ZAdd(ctx, keys.Moving("retry"), redis.Z{Score: float64(time.Now().Add(moving.Life).UnixMilli()), Member: job(1, "a")})
	if got := drain(t, s, keys.Retry); got.Moved != 1 || rdb.LLen(ctx, "queue:a").Val() != 0 {
		t.Fatalf("another one took what was claimed: %+v", got)
	}
	rdb.ZAdd(ctx, keys.Moving("retry"), redis.Z{Score: 1, Member: job(1, "a")}) // its time is over
	if got := drain(t, s, keys.Retry); got.Moved != 1 || rdb.LLen(ctx, "queue:a").Val() != 1 {
		t.Errorf("what it had claimed was not moved on: %+v", got)
	}
	if rdb.ZCard(ctx, "retry").Val()+rdb.ZCard(ctx, keys.Moving("retry")).Val() != 0 {
		t.Error("something is left in the sets")
	}
}

func TestOnAClusterEachMemberEndsWhereItBelongs(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	mw := func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			if string(p.Args()) == "[7]" {
				return nil
			}
			return next(ctx, p)
		}
	}
	s := sched.New(sched.Config{Redis: rdb, Client: client.New(rdb, client.WithMiddleware(mw))})
	rdb.Set(ctx, "queue:odd", "x", 0)
	add(t, rdb, keys.Retry, time.Now().Add(-time.Hour), "no job", job(7, "a"), job(1, "odd"), job(2, "good"))
	before := rdb.ZScore(ctx, "retry", job(1, "odd")).Val()
	got := drain(t, s, keys.Retry)
	if got.Moved != 1 || got.Dead != 1 || got.Dropped != 1 {
		t.Errorf("%+v", got)
	}
	if after := rdb.ZScore(ctx, "retry", job(1, "odd")).Val(); after != before || rdb.ZCard(ctx, "retry").Val() != 1 {
		t.Errorf("what its queue refused has score %v, had %v", after, before)
	}
	if dead := rdb.ZRange(ctx, "dead", 0, -1).Val(); len(dead) != 1 || dead[0] != "no job" {
		t.Errorf("dead: %v", dead)
	}
	if rdb.LLen(ctx, "queue:good").Val() != 1 || rdb.LLen(ctx, "queue:a").Val() != 0 || rdb.ZCard(ctx, keys.Moving("retry")).Val() != 0 {
		t.Error("a queue is not as it should be")
	}
}

func TestOnAClusterEachSetHasALeader(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	w := startLead(t, rdb, "h:1:a")
	for _, set := range []string{keys.Retry, keys.Schedule} {
		harness.Await(t, "it leads "+set, func() bool { return rdb.Get(t.Context(), keys.ClusterPoller(set)).Val() == "h:1:a" })
	}
	add(t, rdb, keys.Retry, time.Now().Add(-time.Minute), job(1, "a")) // without a ring, as a foreigner
	add(t, rdb, keys.Schedule, time.Now().Add(time.Second), job(2, "b"))
	w.awaitDue(keys.Retry)
	w.awaitDue(keys.Schedule)
	drain(t, w.s, keys.Retry)
	drain(t, w.s, keys.Schedule)
	harness.Equal(t, "jobs moved", rdb.LLen(t.Context(), "queue:a").Val()+rdb.LLen(t.Context(), "queue:b").Val(), 2)
	harness.Check(t, w.stop())
	testkit.Await(t, "the locks are given up, or end", func() bool {
		return rdb.Exists(t.Context(), keys.ClusterPoller("retry")).Val()+rdb.Exists(t.Context(), keys.ClusterPoller("schedule")).Val() == 0
	})
}
