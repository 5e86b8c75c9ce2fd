package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestNewRescuerChecksItsConfig(t *testing.T) {
	if _, err := rescue.New(rescue.Config{}); err == nil || !strings.Contains(err.Error(), "Redis is nil") {
		t.Errorf("without Redis: %v", err)
	}
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	if _, err := rescue.New(rescue.Config{Redis: rdb, Lease: -1}); err == nil || !strings.Contains(err.Error(), "lease") {
		t.Errorf("negative lease: %v", err)
	}
	if _, err := rescue.New(rescue.Config{Redis: rdb, Window: -1}); err == nil || !strings.Contains(err.Error(), "window") {
		t.Errorf("negative window: %v", err)
	}
}

func TestRescueReports(t *testing.T) {
	rdb, _ := redistest.New(t)
	r := testRescuer(t, rdb)
	if done := mustRescue(t, r.Rescue); done.Fetchers+done.Units+len(done.Details) != 0 || done.Next <= 0 || done.Next > limits.RescueEvery {
		t.Errorf("nobody there: %+v", done)
	}
	live := mustOpen(t, testEnv(rdb, Strict{"x"}))
	dead := die(t, rdb, "h:2:bb", 3, "a", "b", "c")
	mustTakeNothing := die(t, rdb, "h:3:cc", 0, "d")
	done := mustRescue(t, r.Rescue)
	slices.SortFunc(done.Details, func(a, b rescue.From) int { return strings.Compare(a.ID, b.ID) })
	if done.Fetchers != 2 || done.Units != 9 || len(done.Details) != 2 {
		t.Fatalf("rescued: %+v", done)
	}
	if d := done.Details[0]; d.ID != dead.cur.id || !d.Done || fmt.Sprint(d.Queues) != "map[a:3 b:3 c:3]" {
		t.Errorf("first: %+v", d)
	}
	if d := done.Details[1]; d.ID != mustTakeNothing.cur.id || !d.Done || len(d.Queues) != 0 {
		t.Errorf("second: %+v", d)
	}
	harness.EqualList(t, "expiries", rdb.ZRange(t.Context(), "troupe:expiries", 0, -1).Val(), []string{live.cur.id})
	harness.EqualList(t, "registry", rdb.HKeys(t.Context(), "troupe:places").Val(), []string{live.cur.id})
	index := rdb.HGetAll(t.Context(), dead.cur.indexes[0].key).Val()
	if ttl := rdb.TTL(t.Context(), dead.cur.indexes[0].key).Val(); ttl < 23*time.Hour || len(index) != 1 || !strings.HasPrefix(index["!"], "fenced ") {
		t.Errorf("tombstone %q stands for %v", index, ttl)
	}
	for _, w := range dead.cur.indexes[0].waiters {
		if got := rdb.Get(t.Context(), w.list.key).Val(); got != "closed" {
			t.Errorf("waiting list %s holds %q", w.list.key, got)
		}
		if ttl := rdb.TTL(t.Context(), w.list.key).Val(); ttl < 23*time.Hour {
			t.Errorf("it stays closed for %v", ttl)
		}
	}
	if n := rdb.Exists(t.Context(), keys.Rescue).Val(); n != 0 {
		t.Error("the lock was left behind")
	}
}

// A lease that ends soon is waited for, one that is renewed wakes nobody early.
func TestRescueComesInTime(t *testing.T) {
	rdb, _ := redistest.New(t)
	r := testRescuer(t, rdb)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	if done := mustRescue(t, r.Rescue); done.Next < limits.RescueEvery/2 || done.Next > limits.RescueEvery {
		t.Errorf("a lease of half a minute: next in %v", done.Next)
	}
	now := rdb.Time(t.Context()).Val()
	rdb.ZAdd(t.Context(), "troupe:expiries", redis.Z{Score: float64(now.UnixMilli() + 7000), Member: f.cur.id})
	if done := mustRescue(t, r.Rescue); done.Next < time.Second || done.Next > 7*time.Second+limits.RescueEvery/40 {
		t.Errorf("a lease of seven seconds: next in %v", done.Next)
	}
}

// Only one rescuer works at a time; the lock is released by its holder alone.
func TestRescueLock(t *testing.T) {
	rdb, _ := redistest.New(t)
	r := testRescuer(t, rdb)
	die(t, rdb, "h:2:bb", 2, "a")
	rdb.Set(t.Context(), keys.Rescue, "another", time.Minute)
	if done := mustRescue(t, r.Rescue); done.Units != 0 || done.Next <= 0 {
		t.Errorf("while another rescues: %+v", done)
	}
	harness.Equal(t, "lock", rdb.Get(t.Context(), keys.Rescue).Val(), "another")
	rdb.Del(t.Context(), keys.Rescue)
	if done := mustRescue(t, r.Rescue); done.Units != 2 {
		t.Errorf("then: %+v", done)
	}
	die(t, rdb, "h:3:cc", 2, "a")
	l := &lostReply{}
	lame := testRescuer(t, hooked(t, rdb, l))
	l.arm(hashOf("lock"), true)
	if _, err := lame.Rescue(t.Context()); err == nil {
		t.Error("the lock was not answered, and no error")
	}
	if ttl := rdb.PTTL(t.Context(), keys.Rescue).Val(); ttl <= 0 || ttl > rescue.LockTime {
		t.Errorf("a lock whose holder knows nothing of it stands for %v", ttl)
	}
}

// A rescue may break off at each of its commands, before Redis has carried it out or
// after; the next one finishes it, and the order is kept.
func TestRescueBrokenOffAnywhere(t *testing.T) {
	rdb, _ := redistest.New(t)
	for _, applied := range []bool{false, true} {
		for commands := 0; ; commands += harness.Effort(4, 1) {
			harness.OK(t, rdb.FlushDB(t.Context()).Err())
			die(t, rdb, "h:2:bb", 700, "a", "b")
			rdb.LPush(t.Context(), "queue:a", "later")
			_, err := testRescuer(t, hooked(t, rdb, &death{left: commands, applied: applied})).Rescue(t.Context())
			if err != nil && !errors.Is(err, errBroken) {
				t.Fatal(err)
			}
			rdb.Del(t.Context(), keys.Rescue) // it ends by itself
			mustRescue(t, testRescuer(t, rdb).Rescue)
			for _, queue := range []string{"a", "b"} {
				var want []string
				for i := range 700 {
					want = append(want, fmt.Sprint(queue, i))
				}
				if queue == "a" {
					want = append(want, "later")
				}
				if got := queued(t, rdb, queue); !slices.Equal(got, want) {
					t.Fatalf("broken off after %d commands: queue %s has %d units, out of order or lost: %.300q", commands, queue, len(got), got)
				}
			}
			left := rdb.ZCard(t.Context(), "troupe:expiries").Val() + rdb.HLen(t.Context(), "troupe:places").Val()
			if left != 0 {
				t.Fatalf("broken off after %d commands: %d entries are left in expiries and registry", commands, left)
			}
			noClaims(t, rdb)
			if err == nil {
				if commands < 8 {
					t.Errorf("a rescue is %d commands?", commands)
				}
				break
			}
		}
	}
}

// More dead fetchers than one look lists, some of which cannot be finished: the others are
// rescued one look after the other, without a pause.
func TestRescueMany(t *testing.T) {
	rdb, _ := redistest.New(t)
	const n = 2*rescue.LookLimit + 10
	for i := range n {
		queue := "good"
		if i%7 == 0 {
			queue = "bad"
		}
		die(t, rdb, fmt.Sprintf("h:%d:x", i), 1, queue)
	}
	rdb.Set(t.Context(), "queue:bad", "x", 0)
	r := testRescuer(t, rdb)
	r.Looked(time.Now()) // at all: it finds them by the expiries
	want, fetchers, units := n-(n+6)/7, 0, 0
	for rounds := 1; fetchers < want; rounds++ {
		done, err := r.Rescue(t.Context())
		if err == nil || !strings.Contains(err.Error(), "queue bad") {
			t.Errorf("error %v, expected one about queue bad", err)
		}
		fetchers, units = fetchers+done.Fetchers, units+done.Units
		if fetchers < want && done.Next > time.Second || rounds > 5 {
			t.Fatalf("rescued %d of %d after %d rounds, the next one in %v", fetchers, want, rounds, done.Next)
		}
	}
	if fetchers != want || units != want {
		t.Errorf("rescued %d fetchers, %d units, expected %d", fetchers, units, want)
	}
	rdb.Del(t.Context(), "queue:bad")
	for _, id := range rdb.ZRange(t.Context(), "troupe:expiries", 0, -1).Val() { // they were put off
		rdb.ZAdd(t.Context(), "troupe:expiries", redis.Z{Score: 1, Member: id})
	}
	if done := mustRescue(t, testRescuer(t, rdb).Rescue); done.Units != (n+6)/7 {
		t.Errorf("then: %d units", done.Units)
	}
}

// What cannot be rescued is tried again later and later, by whichever process, wakes
// nobody meanwhile, and holds up no other.
func TestWhatCannotBeRescuedIsPutOff(t *testing.T) {
	for name, policy := range map[string]rescue.Policy{"as it was": nil, "by a policy": policyFunc(func(rescue.Orphan) rescue.Decision { return rescue.Decision{} })} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := redistest.New(t)
			ctx := t.Context()
			dead := die(t, rdb, "h:2:bb", 3, "bad", "good")
			id := dead.cur.id
			rdb.Set(ctx, "queue:bad", "x", 0)
			another := func() *rescue.Rescuer {
				r := testRescuer(t, rdb, func(c *rescue.Config) { c.Policy = policy })
				r.Looked(time.Now())
				return r
			}
			r := another()
			done, err := r.Rescue(ctx)
			if err == nil || done.Units != 3 || done.Next < limits.RescueEvery/4 {
				t.Fatalf("rescued %+v, %v, expected the jobs of the other queue", done, err)
			}
			for _, other := range []*rescue.Rescuer{r, another()} {
				if done, err := other.Rescue(ctx); err != nil || done.Units != 0 || done.Next < limits.RescueEvery/4 {
					t.Errorf("at once: %+v, %v", done, err)
				}
			}
			before := rescue.FirstDelay
			for range 8 {
				left := time.Duration(rdb.ZScore(ctx, "troupe:expiries", id).Val()-float64(rdb.Time(ctx).Val().UnixMilli())) * time.Millisecond
				if left > rescue.LastDelay || left < before-5*time.Second {
					t.Errorf("put off for %v, expected %v", left, before)
				}
				before = min(2*before, rescue.LastDelay)
				rdb.ZAdd(ctx, "troupe:expiries", redis.Z{Score: 1, Member: id}) // the time has come
				if _, err := r.Rescue(ctx); err == nil {
					t.Error("no error")
				}
			}
			die(t, rdb, "h:3:cc", 2, "good")
			rdb.ZAdd(ctx, "troupe:expiries", redis.Z{Score: 0, Member: id})
			if done, _ := r.Rescue(ctx); done.Units != 2 {
				t.Errorf("another: %+v", done)
			}
			rdb.Del(ctx, "queue:bad")
			rdb.ZAdd(ctx, "troupe:expiries", redis.Z{Score: 1, Member: id})
			if done := mustRescue(t, r.Rescue); done.Units != 3 || done.Fetchers != 1 {
				t.Errorf("restored: %+v", done)
			}
			harness.EqualList(t, "queue", queued(t, rdb, "bad"), []string{"bad0", "bad1", "bad2"})
		})
	}
}

// The registry or the expiries are deleted by hand: living fetchers are left alone and repair
// their entries, dead ones are found by the other of both. Nobody scans.
func TestTheRegistryOrTheIndexIsDeleted(t *testing.T) {
	for _, gone := range []string{"troupe:places", "troupe:expiries"} {
		rdb, _ := redistest.New(t)
		f := mustOpen(t, testEnv(rdb, Strict{"live"}))
		rdb.LPush(t.Context(), "queue:live", "1", "2")
		units := mustTake(t, f, 1)
		dead := die(t, rdb, "h:2:bb", 2, "a", "with}:brace")
		rdb.LPush(t.Context(), keys.Queue(keys.Suspects("a")), "s")
		mustTakeSuspect(t, dead)
		expire(t, rdb, dead.cur.id)
		rdb.Del(t.Context(), gone)

		r := testRescuer(t, rdb)
		done := mustRescue(t, r.Rescue)
		if done.Units != 5 || done.Fetchers != 1 {
			t.Errorf("without %q: rescued %+v", gone, done)
		}
		if got := queued(t, rdb, "with}:brace"); !slices.Equal(got, []string{"with}:brace0", "with}:brace1"}) {
			t.Errorf("without %q: queue %q", gone, got)
		}
		if got := queued(t, rdb, "a.suspects"); !slices.Equal(got, []string{"s"}) {
			t.Errorf("without %q: suspects %q", gone, got)
		}
		if got := queued(t, rdb, "live"); !slices.Equal(got, []string{"2"}) {
			t.Errorf("without %q: the living fetcher was robbed: queue %q", gone, got)
		}
		if err := f.Renew(t.Context()); err != nil {
			t.Errorf("without %q: renew: %v", gone, err)
		}
		if !rdb.HExists(t.Context(), "troupe:places", f.cur.id).Val() || rdb.ZScore(t.Context(), "troupe:expiries", f.cur.id).Err() != nil {
			t.Errorf("without %q: the living fetcher did not repair its entries", gone)
		}
		mustTake(t, f, 0, units...)
		if left, err := f.Close(t.Context()); left != 0 || err != nil {
			t.Errorf("without %q: close: %d, %v", gone, left, err)
		}
	}
}

// A layout that this version does not know is left alone, and said.
func TestAnUnknownLayoutIsLeftAlone(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	dead := die(t, rdb, "h:2:bb", 2, "a")
	rdb.HSet(ctx, "troupe:places", dead.cur.id, `{"v":3,"queues":["a"]}`)
	before := copyOf(t, rdb, "troupe:inprogress:*", "troupe:claim:*", "queue:*", "troupe:places")
	var log bytes.Buffer
	r := testRescuer(t, rdb, func(c *rescue.Config) { c.Logger = zerolog.New(&log) })
	for range 2 {
		if done, err := r.Rescue(ctx); err != nil || done.Units != 0 {
			t.Errorf("rescued %+v: %v", done, err)
		}
	}
	if got := strings.Count(log.String(), "another version of troupe has written this"); got != 1 {
		t.Errorf("%d lines in the log, expected 1: %s", got, &log)
	}
	after := copyOf(t, rdb, "troupe:inprogress:*", "troupe:claim:*", "queue:*", "troupe:places")
	for key, dump := range before {
		if after[key] != dump {
			t.Errorf("%s was changed", key)
		}
	}
}

// Renewals keep a living fetcher out of the rescuers' sight.
func TestRenewMovesTheIndex(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	rdb.ZAdd(t.Context(), "troupe:expiries", redis.Z{Score: 1, Member: f.cur.id})
	if done := mustRescue(t, testRescuer(t, rdb).Rescue); done.Units+done.Fetchers != 0 {
		t.Errorf("rescued a living one: %+v", done)
	}
	now := float64(time.Now().UnixMilli())
	if score := rdb.ZScore(t.Context(), "troupe:expiries", f.cur.id).Val(); score < now {
		t.Errorf("a rescuer that met it left %v in the expiries", score)
	}
	rdb.ZAdd(t.Context(), "troupe:expiries", redis.Z{Score: 1, Member: f.cur.id})
	harness.OK(t, f.Renew(t.Context()))
	if score := rdb.ZScore(t.Context(), "troupe:expiries", f.cur.id).Val(); score < now {
		t.Errorf("after a renewal the expiries say %v", score)
	}
}
