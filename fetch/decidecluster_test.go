package fetch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// On a cluster each queue has an index and suspects of its own: what is taken from the first
// is not forgotten for the next.
func TestSuspectsOnAClusterAreTakenOneByOne(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	f, err := NewReliable(Env{Redis: rdb, Identity: "h:2:bb", Capsule: "default", Queues: Strict{"a", "b"}, Lease: time.Minute, Logger: zerolog.Nop()})
	harness.OK(t, err)
	harness.OK(t, f.Open(t.Context()))
	rdb.LPush(t.Context(), keys.ClusterSuspects("a"), "a1", "a2")
	rdb.LPush(t.Context(), keys.ClusterSuspects("b"), "b1")
	for _, want := range []string{"a1", "a2", "b1"} {
		if u := mustTakeSuspect(t, f.(Isolator)); u == nil || string(u.Payload) != want {
			t.Fatalf("took %v, want %s", u, want)
		}
	}
	if u := mustTakeSuspect(t, f.(Isolator)); u != nil {
		t.Errorf("took %v", u)
	}
}

// On a cluster the set of queues and the other queues lie in slots of their own. What
// becomes a suspect is listed as a queue, what changes its queue takes its count along.
func TestPolicyOnACluster(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	decisions := map[string]rescue.Decision{"suspect": {Suspect: true}, "moved": {Queue: "b"}, "plain": {}, "gone": {Queue: "b", Forget: true}}
	r := deciding(t, rdb, func(o rescue.Orphan) rescue.Decision { return decisions[string(o.Payload)] })
	const id = "h:2:bb#default.1"
	slot, common := keys.SlotOf("a", true), keys.CommonOf(id, true)
	rdb.LPush(ctx, slot.List(id, "1.1"), "suspect", "moved", "plain", "gone")
	rdb.HSet(ctx, slot.Index(id), "!", "1 1", "1.1", "a 100")
	rdb.HSet(ctx, slot.Registry(), id, `{"v":2,"queues":["a"]}`)
	rdb.HSet(ctx, common.Owners, id, `{"v":2,"queues":["a"]}`)
	rdb.ZAdd(ctx, common.Expiries, redis.Z{Score: 1, Member: id})
	if done := mustRescue(t, r.Rescue); done.Units != 4 || done.Fetchers != 1 {
		t.Errorf("rescued: %+v", done)
	}
	for key, want := range map[string]string{keys.ClusterSuspects("a"): "suspect", "queue:a": "plain", "queue:b": "gone moved"} {
		jobs := rdb.LRange(ctx, key, 0, -1).Val()
		if slices.Sort(jobs); strings.Join(jobs, " ") != want {
			t.Errorf("%s has %q, want %q", key, jobs, want)
		}
	}
	if names := rdb.SMembers(ctx, keys.Queues).Val(); !slices.Contains(names, "a.suspects") || !slices.Contains(names, "b") {
		t.Errorf("queues %q", names)
	}
	for queue, want := range map[string]string{"a": "plain suspect", "b": "moved"} {
		jobs := rdb.HKeys(ctx, keys.ClusterRecoveredLog(queue)).Val()
		timed := rdb.ZRange(ctx, keys.ClusterRecovered(queue), 0, -1).Val()
		slices.Sort(jobs)
		slices.Sort(timed)
		if strings.Join(jobs, " ") != want || !slices.Equal(jobs, timed) {
			t.Errorf("counted in the slot of %s: %q, %q, want %q", queue, jobs, timed, want)
		}
	}
}
