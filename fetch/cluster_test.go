package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestClusterRefusesWhatItCannotKeepTogether(t *testing.T) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { _ = rdb.Close() })
	env := testEnv(rdb, Strict{"a{b}"})
	if _, err := NewReliable(env); err == nil || !strings.Contains(err.Error(), `queue "a{b}" has a brace`) {
		t.Errorf("a queue whose name has a hash tag: %v", err)
	}
	env.Queues = Strict{"a"}
	if _, err := NewBasic(env); err == nil || !strings.Contains(err.Error(), "Redis Cluster") {
		t.Errorf("the basic fetcher: %v", err)
	}
}

// The keys on a cluster: those of a queue lie with it.
func TestKeysOfAFetcherOnACluster(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	f := member(t, rdb, "h:2:bb", "a", "b")
	rdb.LPush(ctx, "queue:b", "0", "1")
	units := mustTake(t, f, 5)
	const id = "h:2:bb#default.1"
	harness.EqualList(t, "in progress", rdb.LRange(ctx, "troupe:claim:{queue:b}:"+id+":1.1", 0, -1).Val(), []string{"1", "0"})
	for _, queue := range []string{"a", "b"} {
		if index := rdb.HGetAll(ctx, "troupe:inprogress:{queue:"+queue+"}:"+id).Val(); !strings.HasPrefix(index["!"], "1 ") || index["w:"+queue] == "" {
			t.Errorf("index: %q", index)
		}
		if got := rdb.HGet(ctx, "troupe:places:{queue:"+queue+"}", id).Val(); got != `{"v":2,"queues":["a","b"]}` {
			t.Errorf("registry: %q", got)
		}
	}
	if got := rdb.HGet(ctx, "{troupe}:places", id).Val(); got != `{"v":2,"queues":["a","b"]}` {
		t.Errorf("owners: %q", got)
	}
	if rdb.Get(ctx, "{troupe}:lease:"+id).Val() != "1" || rdb.ZScore(ctx, "{troupe}:expiries", id).Val() == 0 {
		t.Error("no lease")
	}
	mustTake(t, f, 0, units...)
	if left, err := f.Close(ctx); left != 0 || err != nil {
		t.Errorf("close: %d, %v", left, err)
	}
	err := rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		if left := node.Keys(ctx, "*").Val(); len(left) > 0 {
			return fmt.Errorf("keys after close: %q", left)
		}
		return nil
	})
	harness.Check(t, err)
}

// Each decision has its place, and the job is nowhere else after it, wherever a rescuer before
// has died.
func TestClusterPolicySendsUnitsToTheirDestinations(t *testing.T) {
	rdb, nodes := redistest.NewCluster(t)
	ctx := t.Context()
	for commands := -1; ; commands++ {
		identity := fmt.Sprint("h:2:", commands)
		for _, key := range []string{"queue:a", "queue:b", keys.ClusterSuspects("a"), keys.ClusterSuspects("b"), keys.Schedule, keys.Dead,
			keys.ClusterRecoveredLog("a"), keys.ClusterRecoveredLog("b")} {
			rdb.Del(ctx, key)
		}
		f := member(t, rdb, identity, "a")
		for i := range 7 {
			rdb.LPush(ctx, "queue:a", fmt.Sprint("a", i))
		}
		if units := mustTake(t, f, 10); len(units) != 7 {
			t.Fatalf("took %d", len(units))
		}
		p := f.cur.indexes[0]
		lapse(t, rdb, f.cur.id)
		policy := policyFunc(func(o rescue.Orphan) rescue.Decision {
			return map[string]rescue.Decision{
				"a1": {Suspect: true},
				"a2": {Queue: "b", Payload: []byte("a2, edited")},
				"a3": {To: job.ToSchedule, Score: 12.5},
				"a4": {To: job.ToDead, Score: 7, Payload: []byte("a4, dead"), Forget: true, Why: errors.New("poison")},
				"a6": {Queue: "b", Suspect: true},
			}[string(o.Payload)]
		})
		rescuer := func(rdb redis.UniversalClient) *rescue.Rescuer {
			return testRescuer(t, rdb, func(c *rescue.Config) { c.Policy, c.Identity, c.Window = policy, "host:1:aa", time.Hour })
		}
		var died error
		if commands >= 0 {
			broken := nodes.Client()
			broken.AddHook(&death{left: commands, applied: commands%2 == 0})
			_, died = rescuer(broken).Rescue(ctx)
			_ = broken.Close()
			rdb.Del(ctx, keys.Rescue)
			if died != nil && !errors.Is(died, errBroken) {
				t.Fatal(died)
			}
		}
		done, err := rescuer(rdb).Rescue(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if commands < 0 && (done.Units != 7 || done.Fetchers != 1 || done.Details[0].Queues["a"] != 7 || len(done.Details[0].Rerouted) != 5) {
			t.Errorf("rescued: %+v", done)
		}
		where := fmt.Sprint("died at command ", commands)
		for key, want := range map[string][]string{"queue:a": {"a0", "a5"}, keys.ClusterSuspects("a"): {"a1"}, "queue:b": {"a2, edited"}, keys.ClusterSuspects("b"): {"a6"}} {
			got := popped(t, rdb, key)
			if twice := slices.Repeat(want, 2); !slices.Equal(got, want) && (died == nil || key == "queue:a" || !slices.Equal(got, twice)) {
				t.Errorf("%s: %s, next first: %q, want %q", where, key, got, want)
			}
		}
		for key, want := range map[string]string{keys.Schedule: "a3", keys.Dead: "a4, dead"} {
			if got := rdb.ZRange(ctx, key, 0, -1).Val(); !slices.Equal(got, []string{want}) {
				t.Errorf("%s: %s: %q", where, key, got)
			}
		}
		for queue, want := range map[string][]string{"a": {"a0", "a1", "a3", "a5"}, "b": {"a2", "a6"}} {
			known := rdb.HKeys(ctx, keys.ClusterRecoveredLog(queue)).Val()
			if slices.Sort(known); !slices.Equal(known, want) {
				t.Errorf("%s: counted in the slot of %s: %q, want %q", where, queue, known, want)
			}
		}
		harness.Equal(t, where+": are in progress", len(inProgress(t, rdb, p)), 0)
		if rdb.ZScore(ctx, "{troupe}:expiries", f.cur.id).Err() == nil || rdb.HExists(ctx, "{troupe}:places", f.cur.id).Val() {
			t.Errorf("%s: the owner is still known", where)
		}
		if commands >= 0 && died == nil {
			if commands < 6 {
				t.Errorf("a rescue is %d commands?", commands)
			}
			return
		}
	}
}

// A process dies between the two steps of a settlement: the job is where it was to go and
// in progress, and ends up there once, as its bytes are the same.
func TestClusterDiesBetweenTwoSteps(t *testing.T) {
	rdb, nodes := redistest.NewCluster(t)
	ctx := t.Context()
	own := nodes.Client()
	defer func() { _ = own.Close() }()
	l := &lostReply{}
	own.AddHook(l)
	f := member(t, own, "h:2:bb", "a")
	known(t, rdb)
	rdb.LPush(ctx, "queue:a", "0", "1")
	units := mustTake(t, f, 2)
	l.arm(hashOf("settle"), false) // the second step is not sent
	move := Move{Unit: units[0], To: ToRetry, Score: 1, Payload: []byte("0 failed")}
	if _, err := f.Settle(ctx, []Move{move}); err == nil {
		t.Fatal("no error")
	}
	if got := inProgress(t, rdb, f.cur.indexes[0]); !slices.Equal(got, []string{"0", "1"}) || rdb.ZCard(ctx, keys.Retry).Val() != 1 {
		t.Fatalf("in progress %q", got)
	}
	lapse(t, rdb, f.cur.id)
	if done := mustRescue(t, testRescuer(t, rdb).Rescue); done.Units != 2 {
		t.Errorf("rescued %+v", done)
	}
	if err := f.Renew(ctx); !errors.As(err, new(*FencedError)) {
		t.Errorf("renew: %v", err)
	}
	again := mustTake(t, f, 2)
	move.Unit = again[0]
	settleAll(t, f, move)
	mustTake(t, f, 0, again[1])
	harness.Equal(t, "retries", rdb.ZCard(ctx, keys.Retry).Val(), 1)
}
