package fetch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// dies has taken n jobs of queue a and has no lease any more. The expiries say the contrary,
// as after a rescue that has failed.
func dies(t *testing.T, rdb redis.UniversalClient, identity string, n int) (id string) {
	t.Helper()
	f, err := NewReliable(Env{Redis: rdb, Identity: identity, Capsule: "default", Queues: Strict{"a"}, Lease: time.Minute, Logger: zerolog.Nop()})
	harness.OK(t, err)
	harness.OK(t, f.Open(t.Context()))
	for i := range n {
		harness.OK(t, rdb.LPush(t.Context(), "queue:a", fmt.Sprint(identity, " ", i)).Err())
	}
	mustTake(t, f, n)
	id = f.(*fetcher).cur.id
	cluster := redisconn.OnCluster(rdb)
	harness.OK(t, rdb.Del(t.Context(), keys.CommonOf(id, cluster).Lease).Err())
	return id
}

// By hand only those are rescued that are named, whatever the expiries say, and nobody whose
// lease runs.
func TestRescueByHand(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	r := harness.Must(rescue.New(rescue.Config{Redis: rdb, Logger: zerolog.Nop()}))(t)
	dead, other, lives := dies(t, rdb, "h:1:aa", 3), dies(t, rdb, "h:2:bb", 2), dies(t, rdb, "h:3:cc", 1)
	lease := keys.CommonOf(lives, false).Lease
	rdb.Set(ctx, lease, "1", time.Minute)
	rdb.Set(ctx, keys.Rescue, "somebody", time.Minute)
	if done, err := r.RescueOnly(ctx, dead); !errors.Is(err, rescue.ErrBusy) || done.Units != 0 {
		t.Errorf("beside another rescuer: %+v, %v", done, err)
	}
	rdb.Del(ctx, keys.Rescue)
	done, err := r.RescueOnly(ctx, dead, lives)
	if err != nil || done.Units != 3 || done.Fetchers != 1 || !done.Details[0].Done {
		t.Errorf("rescued %+v, %v", done, err)
	}
	if got, want := queued(t, rdb, "a"), []string{"h:1:aa 0", "h:1:aa 1", "h:1:aa 2"}; !slices.Equal(got, want) {
		t.Errorf("queue, next first: %q", got)
	}
	left := rdb.HKeys(ctx, "troupe:places").Val()
	if slices.Sort(left); !slices.Equal(left, []string{other, lives}) || rdb.Exists(ctx, keys.Rescue).Val() != 0 {
		t.Errorf("left: %q", left)
	}
}

// Suspects go back in order, in more than one step; a queue of another
// type keeps its own.
func TestReturnSuspects(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	single, _ := redistest.New(t)
	for name, rdb := range map[string]redis.UniversalClient{"single": single, "cluster": rdb} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			suspects := func(queue string) string { return keys.SlotOf(queue, name == "cluster").Suspects(queue) }
			r := harness.Must(rescue.New(rescue.Config{Redis: rdb, Logger: zerolog.Nop()}))(t)
			const n = maxBatch + 10
			for i := range n {
				rdb.LPush(ctx, suspects("a"), i)
			}
			rdb.LPush(ctx, "queue:a", "waits")
			rdb.LPush(ctx, suspects("b"), "b")
			rdb.LPush(ctx, suspects("spoilt"), "s")
			rdb.Set(ctx, "queue:spoilt", "no list", 0)
			rdb.SAdd(ctx, keys.Queues, "a.suspects", "spoilt.suspects")
			returned, err := r.ReturnSuspects(ctx, "b", "c")
			if returned["a"] != n || returned["b"] != 1 || len(returned) != 2 {
				t.Errorf("returned %v", returned)
			}
			if err == nil || !strings.Contains(err.Error(), "return suspects of queue spoilt: ") {
				t.Errorf("error %v", err)
			}
			jobs := rdb.LRange(ctx, "queue:a", 0, -1).Val()
			if len(jobs) != n+1 || jobs[n] != "0" || jobs[1] != fmt.Sprint(n-1) || jobs[0] != "waits" {
				t.Errorf("%d jobs, first %q", len(jobs), jobs[:2])
			}
			names := rdb.SMembers(ctx, keys.Queues).Val()
			if slices.Sort(names); !slices.Equal(names, []string{"a", "b", "spoilt.suspects"}) || rdb.Exists(ctx, suspects("a")).Val() != 0 {
				t.Errorf("queues %q", names)
			}
			harness.EqualList(t, "suspects of the queue that is none", rdb.LRange(ctx, suspects("spoilt"), 0, -1).Val(), []string{"s"})
		})
	}
}

// Out of memory a rescue by hand works as any other.
func TestReturnSuspectsOutOfMemory(t *testing.T) {
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	ctx := t.Context()
	r := harness.Must(rescue.New(rescue.Config{Redis: rdb, Logger: zerolog.Nop()}))(t)
	rdb.LPush(ctx, "queue:a.suspects", "1", "2")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	if returned, err := r.ReturnSuspects(ctx, "a"); err != nil || returned["a"] != 2 {
		t.Errorf("returned %v, %v", returned, err)
	}
}
