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

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redistest"
)

func newRescuer(t *testing.T, rdb redis.UniversalClient) *Rescuer {
	t.Helper()
	r, err := NewRescuer(RescuerConfig{Redis: rdb, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// die makes a fetcher, lets it take n jobs of each queue and its lease run out.
func die(t *testing.T, rdb *redis.Client, identity string, n int, queues ...string) *reliable {
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
	rdb.Del(t.Context(), keys.Lease(id))
	if err := rdb.ZAddXX(t.Context(), keys.Leases, redis.Z{Score: 1, Member: id}).Err(); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, rdb *redis.Client, queue string) []string {
	t.Helper()
	out := rdb.LRange(t.Context(), keys.Queue(queue), 0, -1).Val()
	slices.Reverse(out)
	return out
}

func mustRescue(t *testing.T, round func(context.Context) (Rescued, error)) Rescued {
	t.Helper()
	done, err := round(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestNewRescuerChecksItsConfig(t *testing.T) {
	if _, err := NewRescuer(RescuerConfig{}); err == nil || !strings.Contains(err.Error(), "Redis is nil") {
		t.Errorf("without Redis: %v", err)
	}
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	if _, err := NewRescuer(RescuerConfig{Redis: rdb, Lease: -1}); err == nil || !strings.Contains(err.Error(), "lease") {
		t.Errorf("negative lease: %v", err)
	}
}

func TestRescueReports(t *testing.T) {
	rdb, _ := redistest.New(t)
	r := newRescuer(t, rdb)
	if done := mustRescue(t, r.Rescue); done.Fetchers+done.Units+len(done.Details) != 0 || done.Next <= 0 || done.Next > maxPause {
		t.Errorf("nobody there: %+v", done)
	}
	live := mustOpen(t, testEnv(rdb, Strict{"x"}))
	dead := die(t, rdb, "h:2:bb", 3, "a", "b", "c")
	mustTakeNothing := die(t, rdb, "h:3:cc", 0, "d")
	done := mustRescue(t, r.Rescue)
	slices.SortFunc(done.Details, func(a, b RescuedFrom) int { return strings.Compare(a.ID, b.ID) })
	if done.Fetchers != 2 || done.Units != 9 || len(done.Details) != 2 {
		t.Fatalf("rescued: %+v", done)
	}
	if d := done.Details[0]; d.ID != dead.cur.id || !d.Done || fmt.Sprint(d.Queues) != "map[a:3 b:3 c:3]" {
		t.Errorf("first: %+v", d)
	}
	if d := done.Details[1]; d.ID != mustTakeNothing.cur.id || !d.Done || len(d.Queues) != 0 {
		t.Errorf("second: %+v", d)
	}
	if got := rdb.ZRange(t.Context(), keys.Leases, 0, -1).Val(); !slices.Equal(got, []string{live.cur.id}) {
		t.Errorf("index: %q", got)
	}
	if ttl := rdb.TTL(t.Context(), keys.Fenced(dead.cur.id)).Val(); ttl < 23*time.Hour {
		t.Errorf("tombstone stands for %v", ttl)
	}
	if n := rdb.Exists(t.Context(), keys.Rescue).Val(); n != 0 {
		t.Error("the lock was left behind")
	}
}

// A lease that ends soon is waited for, one that is renewed wakes nobody early.
func TestRescueComesInTime(t *testing.T) {
	rdb, _ := redistest.New(t)
	r := newRescuer(t, rdb)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	if done := mustRescue(t, r.Rescue); done.Next < maxPause/2 || done.Next > maxPause {
		t.Errorf("a lease of a minute: next in %v", done.Next)
	}
	now := rdb.Time(t.Context()).Val()
	rdb.ZAdd(t.Context(), keys.Leases, redis.Z{Score: float64(now.UnixMilli() + 7000), Member: f.cur.id})
	if done := mustRescue(t, r.Rescue); done.Next < time.Second || done.Next > 7*time.Second+maxPause/40 {
		t.Errorf("a lease of seven seconds: next in %v", done.Next)
	}
}

// Only one rescuer works at a time; the lock is released by its holder alone.
func TestRescueLock(t *testing.T) {
	rdb, _ := redistest.New(t)
	r := newRescuer(t, rdb)
	die(t, rdb, "h:2:bb", 2, "a")
	rdb.Set(t.Context(), keys.Rescue, "another", time.Minute)
	if done := mustRescue(t, r.Rescue); done.Units != 0 || done.Next <= 0 {
		t.Errorf("while another rescues: %+v", done)
	}
	if got := rdb.Get(t.Context(), keys.Rescue).Val(); got != "another" {
		t.Errorf("lock: %q", got)
	}
	rdb.Del(t.Context(), keys.Rescue)
	if done := mustRescue(t, r.Rescue); done.Units != 2 {
		t.Errorf("then: %+v", done)
	}
}

// A lock whose taker has given up waiting for the reply is applied all the same.
// Nobody works under it: the same process goes on at its next attempt, others wait.
func TestALateLockDoesNotKeepItsOwnRescuerAway(t *testing.T) {
	rdb, _ := redistest.New(t)
	rescuer := func(identity string) *Rescuer {
		r, err := NewRescuer(RescuerConfig{Redis: rdb, Identity: identity, Logger: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	own, other := rescuer("h:1:aa"), rescuer("h:1:aaa")
	die(t, rdb, "h:2:bb", 2, "a")
	if won, err := own.lock(t.Context(), own.own+"lost", lockTime, "1"); err != nil || !won {
		t.Fatal(won, err)
	}
	if done := mustRescue(t, other.Rescue); done.Units != 0 {
		t.Errorf("another one: %+v", done)
	}
	if done := mustRescue(t, own.Rescue); done.Units != 2 {
		t.Errorf("its own next attempt: %+v", done)
	}
	if held, err := own.lock(t.Context(), own.own+"lost", lockTime, ""); err != nil || held {
		t.Errorf("the round that was given up still holds the lock: %v, %v", held, err)
	}
	if n := rdb.Exists(t.Context(), keys.Rescue).Val(); n != 0 {
		t.Error("the lock was left behind")
	}
}

// A rescue may break off after any of its commands; the next one finishes it,
// and the order is kept.
func TestRescueBrokenOffAnywhere(t *testing.T) {
	rdb, _ := redistest.New(t)
	for commands := 0; ; commands++ {
		if err := rdb.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		die(t, rdb, "h:2:bb", 700, "a", "b")
		rdb.LPush(t.Context(), "queue:a", "later")
		broken := redis.NewClient(rdb.Options())
		broken.AddHook(&breaker{left: commands})
		_, err := newRescuer(t, broken).Rescue(t.Context())
		_ = broken.Close()
		if err != nil && !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		rdb.Del(t.Context(), keys.Rescue) // it ends by itself
		mustRescue(t, newRescuer(t, rdb).Rescue)
		for _, queue := range []string{"a", "b"} {
			var want []string
			for i := range 700 {
				want = append(want, fmt.Sprint(queue, i))
			}
			if queue == "a" {
				want = append(want, "later")
			}
			if got := list(t, rdb, queue); !slices.Equal(got, want) {
				t.Fatalf("broken off after %d commands: queue %s has %d units, out of order or lost: %.300q", commands, queue, len(got), got)
			}
		}
		if left := rdb.ZCard(t.Context(), keys.Leases).Val(); left != 0 {
			t.Fatalf("broken off after %d commands: %d entries are left in the index", commands, left)
		}
		if err == nil {
			if commands < 8 {
				t.Errorf("a rescue is %d commands?", commands)
			}
			return
		}
	}
}

var errBroken = errors.New("broken off")

// breaker lets some commands pass and fails those after them.
type breaker struct{ left int }

func (b *breaker) DialHook(next redis.DialHook) redis.DialHook { return next }
func (b *breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (b *breaker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if b.left--; b.left < 0 {
			cmd.SetErr(errBroken)
			return errBroken
		}
		return next(ctx, cmd)
	}
}

// More dead fetchers than one look lists, some of which cannot be finished.
func TestRescueMany(t *testing.T) {
	rdb, _ := redistest.New(t)
	const n = 2*lookLimit + 10
	for i := range n {
		queue := "good"
		if i%7 == 0 {
			queue = "bad"
		}
		die(t, rdb, fmt.Sprintf("h:%d:x", i), 1, queue)
	}
	rdb.Set(t.Context(), "queue:bad", "x", 0)
	done, err := newRescuer(t, rdb).Rescue(t.Context())
	if err == nil || !strings.Contains(err.Error(), "queue bad") {
		t.Errorf("error %v, expected one about queue bad", err)
	}
	if want := n - (n+6)/7; done.Fetchers != want || done.Units != want {
		t.Errorf("rescued %d fetchers, %d units, expected %d", done.Fetchers, done.Units, want)
	}
	rdb.Del(t.Context(), "queue:bad")
	if done := mustRescue(t, newRescuer(t, rdb).Rescue); done.Units != (n+6)/7 {
		t.Errorf("then: %d units", done.Units)
	}
}

// The registry, the index or both are deleted by hand: living fetchers are left
// alone and repair their entries, units of dead ones are found by a sweep.
func TestSweep(t *testing.T) {
	for _, gone := range [][]string{{keys.Procs}, {keys.Leases}, {keys.Procs, keys.Leases}} {
		rdb, _ := redistest.New(t)
		r := newRescuer(t, rdb)
		f := mustOpen(t, testEnv(rdb, Strict{"live"}))
		rdb.LPush(t.Context(), "queue:live", "1", "2")
		units := mustTake(t, f, 1)
		f.env.Held = func() []Unit { return units }
		die(t, rdb, "h:2:bb", 2, "a", "with}:brace")
		rdb.Del(t.Context(), gone...)

		done := mustRescue(t, r.Sweep)
		if done.Units != 4 || done.Fetchers != 1 {
			t.Errorf("without %q: rescued %+v", gone, done)
		}
		if got := list(t, rdb, "with}:brace"); !slices.Equal(got, []string{"with}:brace0", "with}:brace1"}) {
			t.Errorf("without %q: queue %q", gone, got)
		}
		if got := list(t, rdb, "live"); !slices.Equal(got, []string{"2"}) {
			t.Errorf("without %q: the living fetcher was robbed: queue %q", gone, got)
		}
		if err := f.Renew(t.Context()); err != nil {
			t.Errorf("without %q: renew: %v", gone, err)
		}
		if !rdb.HExists(t.Context(), keys.Procs, f.cur.id).Val() || rdb.ZScore(t.Context(), keys.Leases, f.cur.id).Err() != nil {
			t.Errorf("without %q: the living fetcher did not repair its entries", gone)
		}
		if done := mustRescue(t, r.Sweep); done.Units != 0 {
			t.Errorf("without %q: a second sweep rescued %+v", gone, done)
		}
		mustTake(t, f, 0, units...)
		if left, err := f.Close(t.Context()); left != 0 || err != nil {
			t.Errorf("without %q: close: %d, %v", gone, left, err)
		}
	}
}

// A key that is no private place does not stop a sweep.
func TestSweepPassesByStrangeKeys(t *testing.T) {
	rdb, _ := redistest.New(t)
	rdb.Set(t.Context(), "troupe:wip:{queue:a", "x", 0)
	rdb.Set(t.Context(), keys.WIP("a", "h:9:x#default.1"), "x", 0)
	die(t, rdb, "h:2:bb", 2, "a")
	done, err := newRescuer(t, rdb).Sweep(t.Context())
	if done.Units != 2 || err == nil || !strings.Contains(err.Error(), "h:9:x") {
		t.Errorf("rescued %+v, error %v, expected 2 units and an error about h:9:x", done, err)
	}
}

// Renewals keep a living fetcher out of the rescuers' sight.
func TestRenewMovesTheIndex(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	rdb.ZAdd(t.Context(), keys.Leases, redis.Z{Score: 1, Member: f.cur.id})
	if err := f.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if score := rdb.ZScore(t.Context(), keys.Leases, f.cur.id).Val(); score < float64(time.Now().UnixMilli()) {
		t.Errorf("after a renewal the index says %v", score)
	}
}

// Without a tombstone the fetcher may live: then nobody takes its units.
func TestPutbackWantsATombstone(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	rdb.LPush(t.Context(), "queue:a", "0")
	mustTake(t, f, 1)
	err := putbackScript.Run(t.Context(), rdb, []string{f.cur.fenced, f.cur.wips[0], "queue:a"}, "1000").Err()
	if !redis.HasErrorPrefix(err, "NOTFENCED") || len(list(t, rdb, "a")) != 0 {
		t.Errorf("putback: %v, queue %q", err, list(t, rdb, "a"))
	}
}

// A process that wakes from a pause does not rob itself; what a rescue of it
// has begun it may finish.
func TestRescuePassesByItsOwn(t *testing.T) {
	rdb, _ := redistest.New(t)
	r, err := NewRescuer(RescuerConfig{Redis: rdb, Identity: "h:2:bb", Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	f := die(t, rdb, "h:2:bb", 2, "a")
	die(t, rdb, "h:2:bbb", 2, "b")
	if done := mustRescue(t, r.Rescue); done.Units != 2 || len(list(t, rdb, "a")) != 0 {
		t.Errorf("rescued %+v, expected the other process alone", done)
	}
	if err := f.Renew(t.Context()); err != nil {
		t.Errorf("renew: %v", err)
	}
	expire(t, rdb, f.cur.id)
	if err := fenceScript.Run(t.Context(), rdb, []string{keys.Procs, keys.Leases, f.cur.lease, f.cur.fenced}, f.cur.id, 60000).Err(); err != nil {
		t.Fatal(err)
	}
	expireIndex := redis.Z{Score: 1, Member: f.cur.id}
	rdb.ZAdd(t.Context(), keys.Leases, expireIndex)
	if done := mustRescue(t, r.Rescue); done.Units != 2 {
		t.Errorf("rescued %+v, expected the rest of a rescue", done)
	}
}

// Of its own process a rescuer takes over the incarnations that were given up without
// a rescue, and those alone.
func TestRescueOfItsOwnThatWereGivenUp(t *testing.T) {
	own := func(rdb redis.UniversalClient) *Rescuer {
		r, err := NewRescuer(RescuerConfig{Redis: rdb, Identity: "h:2:bb", Logger: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Run("its registration was answered too late", func(t *testing.T) {
		rdb, _ := redistest.New(t)
		env := testEnv(rdb, Strict{"a"})
		env.Identity = "h:2:bb"
		fetcher, err := NewReliable(env)
		if err != nil {
			t.Fatal(err)
		}
		f := fetcher.(*reliable)
		if err := f.enlist(t.Context(), f.cur); err != nil { // its reply is lost
			t.Fatal(err)
		}
		expire(t, rdb, f.cur.id)
		rdb.LPush(t.Context(), keys.Queue("a"), "0")
		mustTake(t, f, 1)
		mustRescue(t, own(rdb).Rescue)
		if got := rdb.HKeys(t.Context(), keys.Procs).Val(); !slices.Equal(got, []string{"h:2:bb#default.2"}) {
			t.Errorf("registered: %q", got)
		}
		expire(t, rdb, f.cur.id)
		if done := mustRescue(t, own(rdb).Rescue); done.Units != 0 || done.Fetchers != 0 {
			t.Errorf("it robbed its own process: %+v", done)
		}
	})
	t.Run("the next one was fenced", func(t *testing.T) {
		rdb, _ := redistest.New(t)
		die(t, rdb, "h:2:bb", 2, "a")
		rdb.Set(t.Context(), keys.Fenced("h:2:bb#default.2"), `["a"]`, time.Minute)
		if done := mustRescue(t, own(rdb).Rescue); done.Units != 2 {
			t.Errorf("rescued %+v, expected 2 units", done)
		}
	})
	// A rescuer has shut one place and died, and the registry has forgotten its fence.
	t.Run("a rescuer had begun", func(t *testing.T) {
		rdb, _ := redistest.NewCluster(t)
		f := member(t, rdb, "h:2:bb", "a", "b")
		rdb.LPush(t.Context(), keys.Queue("a"), "a0")
		rdb.LPush(t.Context(), keys.Queue("b"), "b0")
		mustTake(t, f, 2)
		id := f.cur.id
		if err := clusterShut.Run(t.Context(), rdb, []string{keys.WIP("a", id)}, 60000, "why").Err(); err != nil {
			t.Fatal(err)
		}
		f.doubt = true
		if err := f.Renew(t.Context()); !errors.Is(err, ErrFenced) {
			t.Fatalf("renew: %v, expected FencedError", err)
		}
		if err := f.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		lapse(t, rdb, id)
		if done := mustRescue(t, own(rdb).Rescue); done.Units != 2 || done.Fetchers != 1 {
			t.Errorf("rescued %+v, expected 2 units", done)
		}
	})
}
