package fetch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redistest"
)

// judgeFunc counts jobs by their bytes.
type judgeFunc func(Orphan) Fate

func (judgeFunc) Key(payload []byte) string { return string(payload) }
func (f judgeFunc) Judge(o Orphan) Fate     { return f(o) }

func judging(t *testing.T, rdb redis.UniversalClient, f judgeFunc) *Rescuer {
	t.Helper()
	r, err := NewRescuer(RescuerConfig{Redis: rdb, Logger: zerolog.Nop(), Judge: f, Identity: "host:1:aa", Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each fate has its place, and the job is nowhere else after it.
func TestJudgeSendsUnitsToTheirPlaces(t *testing.T) {
	rdb, _ := redistest.New(t)
	fates := map[string]Fate{
		"a0": {},
		"a1": {Suspect: true},
		"a2": {Queue: "b", Payload: []byte("a2, edited")},
		"a3": {To: ToSchedule, Score: 12.5},
		"a4": {To: ToDead, Score: 7, Payload: []byte("a4, dead"), Forget: true, Why: errors.New("poison")},
		"a5": {},
	}
	var seen []Orphan
	r := judging(t, rdb, func(o Orphan) Fate { seen = append(seen, o); return fates[string(o.Unit.Payload)] })
	dead := die(t, rdb, "h:2:bb", len(fates), "a")
	done := mustRescue(t, r.Rescue)
	if done.Units != len(fates) || done.Fetchers != 1 || done.Details[0].Queues["a"] != len(fates) {
		t.Errorf("rescued: %+v", done)
	}
	if got := list(t, rdb, "a"); !slices.Equal(got, []string{"a0", "a5"}) {
		t.Errorf("queue, next first: %q", got)
	}
	if got := list(t, rdb, keys.Suspects("a")); !slices.Equal(got, []string{"a1"}) {
		t.Errorf("suspects: %q", got)
	}
	if got := list(t, rdb, "b"); !slices.Equal(got, []string{"a2, edited"}) {
		t.Errorf("other queue: %q", got)
	}
	if got := rdb.SMembers(t.Context(), keys.Queues).Val(); !slices.Contains(got, "b") || !slices.Contains(got, "a.suspects") {
		t.Errorf("queues: %q", got)
	}
	if z := rdb.ZRangeWithScores(t.Context(), keys.Schedule, 0, -1).Val(); len(z) != 1 || z[0].Member != "a3" || z[0].Score != 12.5 {
		t.Errorf("schedule: %v", z)
	}
	if z := rdb.ZRangeWithScores(t.Context(), keys.Dead, 0, -1).Val(); len(z) != 1 || z[0].Member != "a4, dead" {
		t.Errorf("dead: %v", z)
	}
	if n := rdb.Exists(t.Context(), dead.cur.wips...).Val(); n != 0 {
		t.Errorf("%d private places are left", n)
	}
	var elsewhere []string
	for _, j := range done.Details[0].Judged {
		elsewhere = append(elsewhere, string(j.Orphan.Unit.Payload))
	}
	if slices.Sort(elsewhere); !slices.Equal(elsewhere, []string{"a1", "a2", "a3", "a4"}) {
		t.Errorf("reported as sent elsewhere: %q", elsewhere)
	}
	for _, o := range seen {
		if o.From != dead.cur.id || len(o.Recoveries) != 1 || o.Recoveries[0].Process != "h:2:bb" || o.Recoveries[0].Cause != causeLease {
			t.Errorf("judged: %+v", o)
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

// Recoveries add up, and those outside of the window are forgotten.
func TestRecoveriesAreCountedWithinTheWindow(t *testing.T) {
	rdb, _ := redistest.New(t)
	times := 0
	r := judging(t, rdb, func(o Orphan) Fate { times = len(o.Recoveries); return Fate{Forget: times == 4} })
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
	if times != 1 {
		t.Errorf("after it was forgotten: %d recoveries", times)
	}
	if err := r.Acquit(t.Context(), Unit{Queue: "a", Payload: []byte("a0")}); err != nil || rdb.Exists(t.Context(), keys.Recovered, keys.RecoveredLog).Val() != 0 {
		t.Errorf("acquitted (%v), still counted", err)
	}
}

// A destination of the wrong type keeps its unit, and no other.
func TestRefusedFateKeepsTheUnit(t *testing.T) {
	rdb, _ := redistest.New(t)
	r := judging(t, rdb, func(o Orphan) Fate {
		if string(o.Unit.Payload) == "a1" {
			return Fate{To: ToDead}
		}
		return Fate{}
	})
	dead := die(t, rdb, "h:2:bb", 3, "a")
	rdb.Set(t.Context(), keys.Dead, "not a set", 0)
	done, err := r.Rescue(t.Context())
	if err == nil || !strings.Contains(err.Error(), "to dead") || done.Units != 2 {
		t.Errorf("rescued %d: %v", done.Units, err)
	}
	if got := rdb.HVals(t.Context(), dead.cur.wips[0]).Val(); !slices.Equal(got, []string{"a1"}) {
		t.Errorf("in progress: %q", got)
	}
	rdb.Del(t.Context(), keys.Dead)
	if done := mustRescue(t, r.Rescue); done.Units != 1 || rdb.ZCard(t.Context(), keys.Dead).Val() != 1 {
		t.Errorf("second round: %+v", done)
	}
}

func isolator(t *testing.T, rdb *redis.Client, identity string, queues ...string) *reliable {
	t.Helper()
	env := testEnv(rdb, Strict(queues))
	env.Identity = identity
	return mustOpen(t, env)
}

func mustTakeSuspect(t *testing.T, f Isolator) *Unit {
	t.Helper()
	u, err := f.TakeSuspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
	if got := rdb.HVals(t.Context(), keys.WIP("b.suspects", f.cur.id)).Val(); !slices.Equal(got, []string{"s3"}) {
		t.Errorf("in progress: %q", got)
	}
	if results, err = f.Settle(t.Context(), []Move{{Unit: *third, To: ToQueue}}); err != nil || results[0] != Moved {
		t.Fatalf("requeued %v: %v", results, err)
	}
	if got := list(t, rdb, "b.suspects"); !slices.Equal(got, []string{"s3", "s4"}) {
		t.Errorf("suspects, next first: %q", got)
	}

	mustTakeSuspect(t, f)
	expire(t, rdb, f.cur.id)
	var seen []Orphan
	r := judging(t, rdb, func(o Orphan) Fate { seen = append(seen, o); return Fate{Suspect: true} })
	done := mustRescue(t, r.Rescue)
	if len(seen) != 1 || !seen[0].Unit.Suspect || seen[0].Unit.Queue != "b" || !seen[0].Recoveries[0].Suspect {
		t.Errorf("judged: %+v", seen)
	}
	if done.Units != 1 || len(done.Details[0].Judged) != 0 {
		t.Errorf("back to the suspects: %+v", done)
	}
	if got := list(t, rdb, "b.suspects"); !slices.Equal(got, []string{"s3", "s4"}) {
		t.Errorf("suspects, next first: %q", got)
	}
}

// What a TakeSuspect took whose answer was lost is a suspect still.
func TestLostSuspectIsFound(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := isolator(t, rdb, "h:2:bb", "a")
	rdb.LPush(t.Context(), keys.Queue(keys.Suspects("a")), "s1")
	args := append(f.head(f.cur, true, false), f.cur.generation, f.ttl, receiptPrefix(f.calls+1), 1, 1, "", "", 0, 0, "", 1, 2, 1)
	if _, err := takeScript.run(t.Context(), rdb, args); err != nil {
		t.Fatal(err)
	}
	f.calls++
	f.lost, f.doubt = append(f.lost, lostCall{prefix: receiptPrefix(f.calls)}), true
	if units := mustTake(t, f, 5); len(units) != 0 {
		t.Fatalf("Take returned %v", units)
	}
	if waiting, err := f.Suspects(t.Context()); err != nil || !waiting {
		t.Errorf("waiting %v, %v", waiting, err)
	}
	u := mustTakeSuspect(t, f)
	if u == nil || string(u.Payload) != "s1" || !u.Suspect {
		t.Fatalf("took %+v", u)
	}
	if results, err := f.Settle(t.Context(), []Move{{Unit: *u, To: ToQueue}}); err != nil || results[0] != Moved {
		t.Errorf("settled %v: %v", results, err)
	}
	if left, err := f.Close(t.Context()); err != nil || left != 0 || len(list(t, rdb, "a.suspects")) != 1 {
		t.Errorf("closed: %d left, %v", left, err)
	}
}

// A sweep finds a suspect of an owner that nobody remembers.
func TestSweepFindsSuspects(t *testing.T) {
	rdb, _ := redistest.New(t)
	rdb.HSet(t.Context(), keys.WIP(keys.Suspects("a"), "h:9:zz#default.1"), "1000", "s1")
	suspect := false
	r := judging(t, rdb, func(o Orphan) Fate { suspect = o.Unit.Suspect && o.Unit.Queue == "a"; return Fate{Suspect: true} })
	if done := mustRescue(t, r.Sweep); done.Units != 1 || !suspect {
		t.Errorf("swept: %+v", done)
	}
	if got := list(t, rdb, "a.suspects"); !slices.Equal(got, []string{"s1"}) {
		t.Errorf("suspects: %q", got)
	}
}

func TestCauseOfAnEnd(t *testing.T) {
	own := fmt.Sprintf("host:%d:aa", os.Getpid())
	for identity, want := range map[string]string{
		fmt.Sprintf("host:%d:bb", os.Getpid()):  causeEnded, // a container that was started again
		fmt.Sprintf("host:%d:bb", os.Getppid()): causeThere,
		own:                                     causeThere,
		"host:4194305:bb":                       causeEnded, // above the largest number
		"other:1:bb":                            causeLease,
		"nonsense":                              causeLease,
	} {
		if got := cause(identity, own); got != want {
			t.Errorf("%s: %s, want %s", identity, got, want)
		}
	}
}
