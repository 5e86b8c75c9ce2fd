package fetch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redistest"
)

// member opens a fetcher on a cluster.
func member(t *testing.T, rdb *redis.ClusterClient, identity string, queues ...string) *onCluster {
	t.Helper()
	env := testEnv(rdb, Strict(queues))
	env.Identity = identity
	f, err := NewReliable(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = f.Close(context.Background()) })
	if err := f.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f.(*onCluster)
}

// lapse is what time does to a lease.
func lapse(t *testing.T, rdb *redis.ClusterClient, id string) {
	t.Helper()
	rdb.Del(t.Context(), keys.ClusterLease(id))
	if err := rdb.ZAddXX(t.Context(), keys.ClusterLeases, redis.Z{Score: 1, Member: id}).Err(); err != nil {
		t.Fatal(err)
	}
}

// popped is a list, next first.
func popped(t *testing.T, rdb *redis.ClusterClient, key string) []string {
	t.Helper()
	out := rdb.LRange(t.Context(), key, 0, -1).Val()
	slices.Reverse(out)
	return out
}

// Each fate has its place, and the job is nowhere else after it. A rescuer that
// died between the two steps leaves nothing twice in a set.
func TestClusterJudgeSendsUnitsToTheirPlaces(t *testing.T) {
	for name, broken := range map[string]bool{"at once": false, "after a rescuer that died half-way": true} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := redistest.NewCluster(t)
			ctx := t.Context()
			f := member(t, rdb, "h:2:bb", "a")
			for i := range 7 {
				rdb.LPush(ctx, keys.Queue("a"), "a"+string(rune('0'+i)))
			}
			if units := mustTake(t, f, 10); len(units) != 7 {
				t.Fatalf("took %d", len(units))
			}
			id := f.cur.id
			lapse(t, rdb, id)
			judge := judgeFunc(func(o Orphan) Fate { // bytes that tell when and why
				last := o.Recoveries[len(o.Recoveries)-1]
				stamped := []byte(string(o.Unit.Payload) + " " + last.At.Format(time.RFC3339Nano) + last.Cause)
				return map[string]Fate{
					"a1": {Suspect: true},
					"a2": {Queue: "b", Payload: []byte("a2, edited")},
					"a3": {To: ToSchedule, Score: 12.5, Payload: stamped},
					"a4": {To: ToDead, Score: 7, Payload: stamped, Forget: true, Why: errors.New("poison")},
					"a6": {Queue: "b", Suspect: true},
				}[string(o.Unit.Payload)]
			})
			rescuer := func(identity string) *Rescuer {
				r, err := NewRescuer(RescuerConfig{Redis: rdb, Logger: zerolog.Nop(), Judge: judge, Identity: identity, Window: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			copies := 1
			if broken {
				copies = 2
				r := rescuer("host:1:aa")
				j := &judged{r: r, id: id, queue: "a", wip: keys.WIP("a", id), counts: r.counts("a")}
				if err := clusterShut.Run(ctx, rdb, []string{j.wip}, 60000, "it was on this machine").Err(); err != nil {
					t.Fatal(err)
				}
				if open, err := j.shut(ctx); err != nil || !open || j.cause != "it was on this machine" {
					t.Fatal(open, j.cause, err)
				}
				held := slices.DeleteFunc(rdb.HKeys(ctx, j.wip).Val(), func(field string) bool { return field == fenceField })
				verdicts, now, err := j.judge(ctx, held)
				if err != nil || len(verdicts) != 7 {
					t.Fatal(len(verdicts), err)
				}
				if _, err := j.send(ctx, verdicts, now); err != nil {
					t.Fatal(err)
				}
			}
			done := mustRescue(t, rescuer("host:1:cc").Rescue)
			if done.Units != 7 || done.Fetchers != 1 || done.Details[0].Queues["a"] != 7 || len(done.Details[0].Judged) != 5 {
				t.Errorf("rescued: %+v", done)
			}
			for key, want := range map[string][]string{
				keys.Queue("a"): {"a0", "a5"}, keys.ClusterSuspects("a"): {"a1"},
				keys.Queue("b"): slices.Repeat([]string{"a2, edited"}, copies), keys.ClusterSuspects("b"): slices.Repeat([]string{"a6"}, copies),
			} {
				if got := popped(t, rdb, key); !slices.Equal(got, want) {
					t.Errorf("%s, next first: %q, want %q", key, got, want)
				}
			}
			for _, key := range []string{keys.Schedule, keys.Dead} {
				if got := rdb.ZRange(ctx, key, 0, -1).Val(); len(got) != 1 {
					t.Errorf("%s: %q", key, got)
				}
			}
			for queue, want := range map[string][]string{"a": {"a0", "a1", "a3", "a5"}, "b": {"a2", "a6"}} {
				known := rdb.HKeys(ctx, keys.ClusterRecoveredLog(queue)).Val()
				if slices.Sort(known); !slices.Equal(known, want) {
					t.Errorf("counted in the slot of %s: %q, want %q", queue, known, want)
				}
				for _, key := range rescuer("").counts(queue) {
					if ttl := rdb.PTTL(ctx, key).Val(); ttl <= time.Hour || ttl > 3*time.Hour {
						t.Errorf("%s stands for %v", key, ttl)
					}
				}
			}
			if n := rdb.HLen(ctx, keys.WIP("a", id)).Val(); n != 1 {
				t.Errorf("%d units are in progress", n-1)
			}
			names := rdb.SMembers(ctx, keys.Queues).Val()
			for _, name := range []string{"b", "a.suspects", "b.suspects"} {
				if !slices.Contains(names, name) {
					t.Errorf("%s is not among the queues %q", name, names)
				}
			}
			r := rescuer("")
			if err := r.Acquit(ctx, Unit{Queue: "a", Payload: []byte("a1")}, Unit{Queue: "b", Payload: []byte("a6")}); err != nil {
				t.Fatal(err)
			}
			if rdb.HExists(ctx, keys.ClusterRecoveredLog("a"), "a1").Val() || rdb.HExists(ctx, keys.ClusterRecoveredLog("b"), "a6").Val() {
				t.Error("acquitted, still counted")
			}
		})
	}
}

// A suspect is taken on demand only, one by one; it is known as one when its
// process dies, goes back to the suspects, and can be settled like any unit.
func TestClusterSuspectsAreTakenOneByOne(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	f := member(t, rdb, "h:2:bb", "a", "b")
	waits := func(want bool) {
		t.Helper()
		if waiting, err := f.Suspects(ctx); err != nil || waiting != want {
			t.Fatalf("waiting %v, %v", waiting, err)
		}
	}
	waits(false)
	rdb.LPush(ctx, keys.ClusterSuspects("b"), "s1", "s2", "s3", "s4")
	waits(true)
	if units := mustTake(t, f, 10); len(units) != 0 {
		t.Fatalf("Take took %v", units)
	}
	rdb.SAdd(ctx, keys.Paused, "b")
	waits(false)
	if u := mustTakeSuspect(t, f); u != nil {
		t.Fatalf("of a paused queue: %+v", u)
	}
	rdb.Del(ctx, keys.Paused)
	first, second, third := mustTakeSuspect(t, f), mustTakeSuspect(t, f), mustTakeSuspect(t, f)
	if first == nil || string(first.Payload) != "s1" || first.Queue != "b" || !first.Suspect {
		t.Fatalf("took %+v", first)
	}
	rdb.LPush(ctx, keys.Queue("b"), "plain")
	plain := mustTake(t, f, 1)
	if _, err := f.Take(ctx, 0, append(plain, *first)); err != nil { // acks of both kinds
		t.Fatal(err)
	}
	results, err := f.Settle(ctx, []Move{{Unit: *second, To: ToRetry, Score: 1}, {Unit: *third, To: ToQueue}})
	if err != nil || results[0] != Moved || results[1] != Moved || rdb.ZCard(ctx, keys.Retry).Val() != 1 {
		t.Fatalf("settled %v: %v", results, err)
	}
	if got := popped(t, rdb, keys.ClusterSuspects("b")); !slices.Equal(got, []string{"s3", "s4"}) {
		t.Errorf("suspects, next first: %q", got)
	}

	mustTakeSuspect(t, f)
	rdb.LPush(ctx, keys.Queue("b"), "beside")
	mustTake(t, f, 1)
	lapse(t, rdb, f.cur.id)
	var seen []Orphan
	r, err := NewRescuer(RescuerConfig{Redis: rdb, Logger: zerolog.Nop(), Judge: judgeFunc(func(o Orphan) Fate {
		seen = append(seen, o)
		return Fate{Suspect: o.Unit.Suspect}
	})})
	if err != nil {
		t.Fatal(err)
	}
	done := mustRescue(t, r.Rescue)
	slices.SortFunc(seen, func(a, b Orphan) int { return len(a.Unit.Payload) - len(b.Unit.Payload) })
	if len(seen) != 2 || !seen[0].Unit.Suspect || seen[0].Unit.Queue != "b" || !seen[0].Recoveries[0].Suspect ||
		seen[1].Unit.Suspect || seen[1].Recoveries[0].Suspect {
		t.Errorf("judged: %+v", seen)
	}
	if done.Units != 2 || len(done.Details[0].Judged) != 0 {
		t.Errorf("both are back where they were: %+v", done)
	}
	if got := popped(t, rdb, keys.ClusterSuspects("b")); !slices.Equal(got, []string{"s3", "s4"}) {
		t.Errorf("suspects, next first: %q", got)
	}
	if got := popped(t, rdb, keys.Queue("b")); !slices.Equal(got, []string{"beside"}) {
		t.Errorf("queue: %q", got)
	}
}

// What a TakeSuspect took whose answer was lost is a suspect still, and so is one
// that a node has forgotten.
func TestClusterLostSuspectIsFound(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	f := member(t, rdb, "h:2:bb", "a")
	rdb.LPush(ctx, keys.ClusterSuspects("a"), "s1")
	f.calls++
	prefix := suspectMark + receiptPrefix(f.calls)
	if err := runAll(ctx, rdb, []*eval{newEval(clusterTake, f.cur.places[1], f.cur.generation, prefix, 1, DefaultBytes)}); err != nil {
		t.Fatal(err)
	}
	f.lost, f.doubt = append(f.lost, lostCall{prefix: prefix}), true
	if units := mustTake(t, f, 5); len(units) != 0 {
		t.Fatalf("Take returned %v", units)
	}
	if waiting, err := f.Suspects(ctx); err != nil || !waiting {
		t.Errorf("waiting %v, %v", waiting, err)
	}
	rdb.Del(ctx, keys.WIP("a", f.cur.id))
	f.doubt = true // the next call finds that out
	u := mustTakeSuspect(t, f)
	if u == nil || string(u.Payload) != "s1" || !u.Suspect {
		t.Fatalf("took %+v", u)
	}
	if results, err := f.Settle(ctx, []Move{{Unit: *u, To: ToQueue}}); err != nil || results[0] != Moved {
		t.Errorf("settled %v: %v", results, err)
	}
	if left, err := f.Close(ctx); err != nil || left != 0 || len(popped(t, rdb, keys.ClusterSuspects("a"))) != 1 {
		t.Errorf("closed: %d left, %v", left, err)
	}
}

// A destination of the wrong type keeps its unit, and no other: neither of this
// fetcher nor of the next.
func TestClusterRefusedFateKeepsTheUnit(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	r, err := NewRescuer(RescuerConfig{Redis: rdb, Logger: zerolog.Nop(), Judge: judgeFunc(func(o Orphan) Fate {
		return map[string]Fate{"a1": {To: ToDead}, "a2": {Queue: "b"}}[string(o.Unit.Payload)]
	})})
	if err != nil {
		t.Fatal(err)
	}
	for _, identity := range []string{"h:2:bb", "h:3:cc"} {
		f := member(t, rdb, identity, "a")
		rdb.LPush(ctx, keys.Queue("a"), "a0", "a1", "a2")
		if units := mustTake(t, f, 3); len(units) != 3 {
			t.Fatalf("took %d", len(units))
		}
		lapse(t, rdb, f.cur.id)
	}
	rdb.Set(ctx, keys.Dead, "not a set", 0)
	rdb.Set(ctx, keys.Queue("b"), "not a list", 0)
	done, err := r.Rescue(ctx)
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || done.Units != 2 {
		t.Errorf("rescued %d: %v", done.Units, err)
	}
	for _, identity := range []string{"h:2:bb", "h:3:cc"} {
		held := rdb.HVals(ctx, keys.WIP("a", identity+"#default.1")).Val()
		held = slices.DeleteFunc(held, func(s string) bool { return strings.HasPrefix(s, fenceDead) })
		if slices.Sort(held); !slices.Equal(held, []string{"a1", "a2"}) {
			t.Errorf("in progress at %s: %q", identity, held)
		}
	}
	rdb.Del(ctx, keys.Dead)
	rdb.Del(ctx, keys.Queue("b"))
	if done := mustRescue(t, r.Rescue); done.Units != 4 || rdb.LLen(ctx, keys.Queue("b")).Val() != 2 || rdb.ZCard(ctx, keys.Dead).Val() != 1 {
		t.Errorf("second round: %+v", done)
	}
}
