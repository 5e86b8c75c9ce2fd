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
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// policyFunc counts jobs by their bytes.
type policyFunc func(rescue.Orphan) rescue.Decision

func (policyFunc) Key(payload []byte) string                { return string(payload) }
func (f policyFunc) Decide(o rescue.Orphan) rescue.Decision { return f(o) }

func deciding(t *testing.T, rdb redis.UniversalClient, f policyFunc) *rescue.Rescuer {
	t.Helper()
	r := harness.Must(rescue.New(rescue.Config{Redis: rdb, Logger: zerolog.Nop(), Policy: f, Identity: "host:1:aa", Window: time.Hour}))(t)
	return r
}

// Each decision has its place, and the job is nowhere else after it.
func TestPolicySendsUnitsToTheirDestinations(t *testing.T) {
	rdb, _ := redistest.New(t)
	decisions := map[string]rescue.Decision{
		"a0": {},
		"a1": {Suspect: true},
		"a2": {Queue: "b", Payload: []byte("a2, edited")},
		"a3": {To: job.ToSchedule, Score: 12.5},
		"a4": {To: job.ToDead, Score: 7, Payload: []byte("a4, dead"), Forget: true, Why: errors.New("poison")},
		"a5": {},
	}
	var seen []rescue.Orphan
	r := deciding(t, rdb, func(o rescue.Orphan) rescue.Decision { seen = append(seen, o); return decisions[string(o.Payload)] })
	dead := die(t, rdb, "h:2:bb", len(decisions), "a")
	done := mustRescue(t, r.Rescue)
	if done.Units != len(decisions) || done.Fetchers != 1 || done.Details[0].Queues["a"] != len(decisions) {
		t.Errorf("rescued: %+v", done)
	}
	harness.EqualList(t, "queue, next first", queued(t, rdb, "a"), []string{"a0", "a5"})
	harness.EqualList(t, "suspects", queued(t, rdb, keys.Suspects("a")), []string{"a1"})
	harness.EqualList(t, "other queue", queued(t, rdb, "b"), []string{"a2, edited"})
	if got := rdb.SMembers(t.Context(), keys.Queues).Val(); !slices.Contains(got, "b") || !slices.Contains(got, "a.suspects") {
		t.Errorf("queues: %q", got)
	}
	if z := rdb.ZRangeWithScores(t.Context(), keys.Schedule, 0, -1).Val(); len(z) != 1 || z[0].Member != "a3" || z[0].Score != 12.5 {
		t.Errorf("schedule: %v", z)
	}
	if z := rdb.ZRangeWithScores(t.Context(), keys.Dead, 0, -1).Val(); len(z) != 1 || z[0].Member != "a4, dead" {
		t.Errorf("dead: %v", z)
	}
	harness.Equal(t, "fields are left in the index, want the tombstone", rdb.HLen(t.Context(), dead.cur.indexes[0].key).Val(), 1)
	var elsewhere []string
	for _, j := range done.Details[0].Rerouted {
		elsewhere = append(elsewhere, string(j.Orphan.Payload))
	}
	if slices.Sort(elsewhere); !slices.Equal(elsewhere, []string{"a1", "a2", "a3", "a4"}) {
		t.Errorf("reported as sent elsewhere: %q", elsewhere)
	}
	for _, o := range seen {
		if o.From != dead.cur.id || len(o.Recoveries) != 1 || o.Recoveries[0].Process != "h:2:bb" || o.Recoveries[0].Cause != "its lease ran out" {
			t.Errorf("decided: %+v", o)
		}
	}
	known := rdb.HKeys(t.Context(), keys.RecoveredLog).Val()
	if slices.Sort(known); !slices.Equal(known, []string{"a0", "a1", "a2", "a3", "a5"}) {
		t.Errorf("counted: %q", known)
	}
	if ttl := rdb.PTTL(t.Context(), keys.Recovered).Val(); ttl <= time.Hour || ttl > 3*time.Hour {
		t.Errorf("the counts stand for %v", ttl)
	}
}

// A job of a batch that is dead counts in the step that moves it: whatever a rescuer does behind that may be lost.
func TestADeadJobCountsInItsBatch(t *testing.T) {
	rdb, _ := redistest.New(t)
	r := deciding(t, rdb, func(o rescue.Orphan) rescue.Decision {
		if string(o.Payload) == `{"jid":"j2","t_batch":"B:1"}` {
			return rescue.Decision{} // it goes back to its queue
		}
		return rescue.Decision{To: job.ToDead, Score: 7}
	})
	made := &job.Join{ID: "B", Fields: []any{"on:death", `{"jid":"d"`, "to:death", "b", "on:complete", `{"jid":"c"`, "to:complete", "b"}}
	refused, err := job.JoinBatch(t.Context(), rdb, made, "token", 1, true, []job.Push{
		{Queue: "a", Payload: []byte(`{"jid":"j1"}`)}, {Queue: "a", Payload: []byte(`{"jid":"j2"}`)}, {Queue: "a", Payload: []byte(`{"jid":"j3"}`)},
	})
	harness.OK(t, err)
	harness.Equal(t, "refused", refused, "")
	env := testEnv(rdb, Strict{"a"})
	env.Identity = "h:2:bb"
	f := mustOpen(t, env)
	mustTake(t, f, 3)
	expire(t, rdb, f.cur.id)
	mustRescue(t, r.Rescue)
	harness.EqualList(t, "queue", queued(t, rdb, "a"), []string{`{"jid":"j2","t_batch":"B:1"}`})
	if got := rdb.HMGet(t.Context(), keys.Batch("B"), "total", "pending", "unrun", "complete").Val(); fmt.Sprint(got) != "[3 3 1 <nil>]" {
		t.Errorf("the batch has total, pending, unrun, complete %v, expected [3 3 1 <nil>]", got)
	}
	if got := queued(t, rdb, "b"); len(got) != 1 || !strings.HasPrefix(got[0], `{"jid":"d",`) {
		t.Errorf("callbacks: %q, expected that of death", got)
	}
}

// Recoveries add up, and those outside of the window are forgotten.
func TestRecoveriesAreCountedWithinTheWindow(t *testing.T) {
	rdb, _ := redistest.New(t)
	times := 0
	r := deciding(t, rdb, func(o rescue.Orphan) rescue.Decision {
		times = len(o.Recoveries)
		return rescue.Decision{Forget: times == 4}
	})
	die(t, rdb, "h:2:1", 1, "a")
	for want := 1; want <= 4; want++ {
		mustRescue(t, r.Rescue)
		if times != want {
			t.Fatalf("%d recoveries, want %d", times, want)
		}
		rdb.Del(t.Context(), keys.Queue("a"))
		if want == 3 { // one that is too old, and jobs that nobody has seen for long
			old := `[{"at":"2001-01-01T00:00:00Z","process":"x","cause":""},`
			text := rdb.HGet(t.Context(), keys.RecoveredLog, "a0").Val()
			rdb.HSet(t.Context(), keys.RecoveredLog, "a0", old+text[1:], "gone", "[]")
			rdb.ZAdd(t.Context(), keys.Recovered, redis.Z{Score: 5, Member: "gone"})
		}
		die(t, rdb, fmt.Sprint("h:2:", want+1), 1, "a")
	}
	if n := rdb.HLen(t.Context(), keys.RecoveredLog).Val() + rdb.ZCard(t.Context(), keys.Recovered).Val(); n != 0 {
		t.Errorf("%d entries are left: one was to be forgotten, one is old", n)
	}
	mustRescue(t, r.Rescue)
	harness.Equal(t, "after it was forgotten: recoveries", times, 1)
	if err := r.Forget(t.Context(), "a", []byte("a0")); err != nil || rdb.Exists(t.Context(), keys.Recovered, keys.RecoveredLog).Val() != 0 {
		t.Errorf("forgotten (%v), still counted", err)
	}
}

// A destination of the wrong type keeps its unit, and no other.
func TestRefusedDecisionKeepsTheUnit(t *testing.T) {
	rdb, _ := redistest.New(t)
	r := deciding(t, rdb, func(o rescue.Orphan) rescue.Decision {
		if string(o.Payload) == "a1" {
			return rescue.Decision{To: job.ToDead}
		}
		return rescue.Decision{}
	})
	dead := die(t, rdb, "h:2:bb", 3, "a")
	rdb.Set(t.Context(), keys.Dead, "not a set", 0)
	done, err := r.Rescue(t.Context())
	if err == nil || !strings.Contains(err.Error(), "to dead") || done.Units != 2 {
		t.Errorf("rescued %d: %v", done.Units, err)
	}
	harness.EqualList(t, "in progress", inProgress(t, rdb, dead.cur.indexes[0]), []string{"a1"})
	rdb.Del(t.Context(), keys.Dead)
	if done := mustRescue(t, r.Rescue); done.Units != 0 {
		t.Errorf("it was tried again at once: %+v", done)
	}
	expire(t, rdb, dead.cur.id)
	if done := mustRescue(t, r.Rescue); done.Units != 1 || rdb.ZCard(t.Context(), keys.Dead).Val() != 1 {
		t.Errorf("second round: %+v", done)
	}
}

func isolator(t *testing.T, rdb *redis.Client, identity string, queues ...string) *fetcher {
	t.Helper()
	env := testEnv(rdb, Strict(queues))
	env.Identity = identity
	return mustOpen(t, env)
}

func mustTakeSuspect(t *testing.T, f Isolator) *Unit {
	t.Helper()
	u := harness.Must(f.TakeSuspect(t.Context()))(t)
	return u
}

// A suspect is taken on demand only, one by one; it is known as one when its
// process dies, goes back to the suspects, and can be settled like any unit.
func TestSuspectsAreTakenOneByOne(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := isolator(t, rdb, "h:2:bb", "a", "b")
	if waiting, err := f.Suspects(t.Context()); err != nil || waiting {
		t.Fatalf("waiting %v, %v", waiting, err)
	}
	rdb.LPush(t.Context(), keys.Queue(keys.Suspects("b")), "s1", "s2", "s3", "s4")
	if waiting, err := f.Suspects(t.Context()); err != nil || !waiting {
		t.Fatalf("waiting %v, %v", waiting, err)
	}
	if units := mustTake(t, f, 10); len(units) != 0 {
		t.Fatalf("Take took %v", units)
	}
	rdb.SAdd(t.Context(), keys.Paused, "b")
	if waiting, err := f.Suspects(t.Context()); err != nil || waiting {
		t.Errorf("of a paused queue: waiting %v, %v", waiting, err)
	}
	if u := mustTakeSuspect(t, f); u != nil {
		t.Fatalf("of a paused queue: %+v", u)
	}
	rdb.Del(t.Context(), keys.Paused)
	first, second, third := mustTakeSuspect(t, f), mustTakeSuspect(t, f), mustTakeSuspect(t, f)
	if first == nil || string(first.Payload) != "s1" || first.Queue != "b" || !first.Suspect {
		t.Fatalf("took %+v", first)
	}
	rdb.LPush(t.Context(), keys.Queue("a"), "plain")
	plain := mustTake(t, f, 1)
	if _, err := f.Take(t.Context(), 0, append(plain, *first)); err != nil { // acks of both kinds
		t.Fatal(err)
	}
	results, err := f.Settle(t.Context(), []Move{{Unit: *second, To: ToRetry, Score: 1}})
	if err != nil || results[0] != Moved {
		t.Fatalf("settled %v: %v", results, err)
	}
	harness.EqualList(t, "in progress", inProgress(t, rdb, f.cur.indexes[0]), []string{"s3"})
	if results, err = f.Settle(t.Context(), []Move{{Unit: *third, To: ToQueue}}); err != nil || results[0] != Moved {
		t.Fatalf("requeued %v: %v", results, err)
	}
	harness.EqualList(t, "suspects, next first", queued(t, rdb, "b.suspects"), []string{"s3", "s4"})

	mustTakeSuspect(t, f)
	expire(t, rdb, f.cur.id)
	var seen []rescue.Orphan
	r := deciding(t, rdb, func(o rescue.Orphan) rescue.Decision { seen = append(seen, o); return rescue.Decision{Suspect: true} })
	done := mustRescue(t, r.Rescue)
	if len(seen) != 1 || !seen[0].Suspect || seen[0].Queue != "b" || !seen[0].Recoveries[0].Suspect {
		t.Errorf("decided: %+v", seen)
	}
	if done.Units != 1 || len(done.Details[0].Rerouted) != 0 {
		t.Errorf("back to the suspects: %+v", done)
	}
	harness.EqualList(t, "suspects, next first", queued(t, rdb, "b.suspects"), []string{"s3", "s4"})
}

func testEnv(rdb redis.UniversalClient, queues Queues) Env {
	return Env{Redis: rdb, Identity: "h:1:aa", Capsule: "default", Queues: queues, Logger: zerolog.Nop()}
}

func mustOpen(t *testing.T, env Env) *fetcher {
	t.Helper()
	f, err := NewReliable(env)
	if err == nil {
		err = f.Open(t.Context())
	}
	harness.OK(t, err)
	return f.(*fetcher)
}

func mustTake(t *testing.T, f Fetcher, n int, acks ...Unit) []Unit {
	t.Helper()
	units := harness.Must(f.Take(t.Context(), n, acks))(t)
	return units
}

// die is a fetcher that took n jobs of each queue, pushed by it, and whose lease is over.
func die(t *testing.T, rdb *redis.Client, identity string, n int, queues ...string) *fetcher {
	t.Helper()
	env := testEnv(rdb, Strict(queues))
	env.Identity = identity
	f := mustOpen(t, env)
	for _, queue := range queues {
		for i := range n {
			rdb.LPush(t.Context(), keys.Queue(queue), fmt.Sprint(queue, i))
		}
	}
	for taken := 0; taken < n*len(queues); {
		units := mustTake(t, f, n*len(queues)-taken)
		if taken += len(units); len(units) == 0 {
			t.Fatalf("took %d units of %d", taken, n*len(queues))
		}
	}
	expire(t, rdb, f.cur.id)
	return f
}

// expire is what time does to a lease.
func expire(t *testing.T, rdb *redis.Client, id string) {
	t.Helper()
	c := keys.CommonOf(id, false)
	rdb.Del(t.Context(), c.Lease)
	rdb.ZAdd(t.Context(), c.Expiries, redis.Z{Score: 1, Member: id})
}

// queued is a queue, the next to be popped first.
func queued(t *testing.T, rdb *redis.Client, queue string) []string {
	t.Helper()
	out := rdb.LRange(t.Context(), keys.Queue(queue), 0, -1).Val()
	slices.Reverse(out)
	return out
}

func mustRescue(t *testing.T, round func(context.Context) (rescue.Round, error)) rescue.Round {
	t.Helper()
	done := harness.Must(round(t.Context()))(t)
	return done
}
