package fetch

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// What a failover, an old snapshot or a torn log brings back or forgets.
var (
	everything = []string{"*"}
	theClaims  = []string{"troupe:inprogress:*", "troupe:claim:*", "queue:*", "retry", "schedule", "dead"}
)

// wherever lists every job in the sets and queues, and in progress.
func wherever(t *testing.T, rdb redis.Cmdable, p *index, queues ...string) (jobs []string) {
	t.Helper()
	for _, set := range []string{keys.Retry, keys.Schedule, keys.Dead} {
		for _, job := range rdb.ZRange(t.Context(), set, 0, -1).Val() {
			jobs = append(jobs, set+" "+job)
		}
	}
	for _, queue := range queues {
		for _, job := range popped(t, rdb, keys.Queue(queue)) {
			jobs = append(jobs, "queue "+job)
		}
	}
	for _, job := range inProgress(t, rdb, p) {
		jobs = append(jobs, "claim "+job)
	}
	slices.Sort(jobs)
	return jobs
}

// allMoves is one move of each kind, of the first five units, with bytes of their own, as
// of a failed job, an iterable one that goes on later, a dead one and two that go back.
func allMoves(units []Unit) (moves []Move) {
	for i, to := range []Destination{ToRetry, ToSchedule, ToDead, ToQueue, ToBack} {
		u := units[i]
		moves = append(moves, Move{Unit: u, To: to, Score: 5, Payload: append([]byte("after "), u.Payload...)})
	}
	return moves
}

// Redis knows of the process and has forgotten its fetch, all of it, or nothing: what has
// failed or goes back is written all the same, and an ack ends what was in hand.
func TestSettlingWhatRedisHasForgotten(t *testing.T) {
	type scene struct {
		rdb *redis.Client
		f   *fetcher
	}
	for name, c := range map[string]struct {
		before func(scene) func() // a snapshot before the fetch; returns the fall back to it
	}{
		"the fetch": {before: func(s scene) func() {
			c := copyOf(t, s.rdb, theClaims...)
			return func() { c.fallBack(t, s.rdb, theClaims...) }
		}},
		"all but the lease": {before: func(s scene) func() {
			return func() { copied{}.fallBack(t, s.rdb, theClaims...) }
		}},
		"everything": {before: func(s scene) func() {
			return func() { s.rdb.FlushDB(t.Context()) }
		}},
		"the lists of the claims": {before: func(s scene) func() {
			return func() { copied{}.fallBack(t, s.rdb, "troupe:claim:*") }
		}},
	} {
		for _, learn := range []string{"settle", "take", "renew", "close"} {
			if name == "the lists of the claims" && learn == "close" {
				continue // no state that Redis was ever in, and nothing is said of what is in progress
			}
			t.Run(name+", "+learn, func(t *testing.T) {
				rdb, _ := redistest.New(t)
				ctx := t.Context()
				f := mustOpen(t, testEnv(rdb, Strict{"a"}))
				mustTake(t, f, 1)
				fall := c.before(scene{rdb: rdb, f: f})
				fillQueue(t, rdb, "a", 8)
				units := mustTake(t, f, 8)
				fall()
				switch learn {
				case "take":
					harness.Must(f.Take(ctx, 1, units[5:6]))(t)
				case "renew":
					harness.OK(t, f.Renew(ctx))
				case "close":
					if left, err := f.Close(ctx); left != 8 || err != nil {
						t.Fatalf("close: %d, %v, expected 8 units in progress", left, err)
					}
					harness.EqualList(t, "in progress", inProgress(t, rdb, f.cur.indexes[0]), upTo(8))
					return
				}
				settleAll(t, f, allMoves(units)...)
				mustTake(t, f, 0, units[5:]...)
				want := []string{"dead after 2", "queue after 3", "queue after 4", "retry after 0", "schedule after 1"}
				harness.EqualList(t, "jobs are in", wherever(t, rdb, f.cur.indexes[0], "a"), want)
				settleAll(t, f, allMoves(units)...) // once more: nothing happens twice
				harness.EqualList(t, "settled again, jobs are in", wherever(t, rdb, f.cur.indexes[0], "a"), want)
				noClaims(t, rdb)
			})
		}
	}
}

// Ended jobs that come back into the index of a living process are found at its next call
// or beat, and run again then: while it is idle, and while long jobs keep it busy.
func TestEndedJobsThatComeBackAreFoundAtOnce(t *testing.T) {
	for _, learn := range []string{"renew", "take", "settle", "wait"} {
		for _, newer := range []bool{false, true} { // a call after the fall back's state has happened
			t.Run(fmt.Sprintf("%s, newer claims %v", learn, newer), func(t *testing.T) {
				rdb, _ := redistest.New(t)
				ctx := t.Context()
				env := testEnv(rdb, Strict{"a"})
				f := mustOpen(t, env)
				fillQueue(t, rdb, "a", 6)
				units := mustTake(t, f, 6)
				before := copyOf(t, rdb, theClaims...)
				settleAll(t, f, Move{Unit: units[0], To: ToRetry, Score: 1}, Move{Unit: units[1], To: ToBack})
				mustTake(t, f, 0, units[2:5]...)
				held := units[5:] // a long job
				if newer {
					held = append(held, mustTake(t, f, 1)...)
				}
				before.fallBack(t, rdb, theClaims...)
				switch learn {
				case "renew":
					harness.OK(t, f.Renew(ctx))
					f.mu.Lock()
					harness.Equal(t, "units were found", len(f.stash), 5)
					f.mu.Unlock()
				case "settle":
					settleAll(t, f, Move{Unit: held[0], To: ToRetry, Score: 7})
					held = held[1:]
				case "wait":
					go func() { _ = f.Renew(context.WithoutCancel(ctx)) }() // the beat
					for found := false; !found; {
						harness.OK(t, f.Wait(ctx, time.Minute))
						f.mu.Lock()
						found = len(f.stash) > 0
						f.mu.Unlock()
					}
				}
				var again []Unit
				for len(again) < 5 {
					more := mustTake(t, f, 10)
					if len(more) == 0 {
						break
					}
					again = append(again, more...)
				}
				harness.EqualList(t, "found, expected those that had ended", payloads(again), upTo(5))
				mustTake(t, f, 0, append(again, held...)...)
				noClaims(t, rdb)
				if left, err := f.Close(ctx); left != 0 || err != nil {
					t.Errorf("close: %d, %v", left, err)
				}
			})
		}
	}
}

// A settlement is not answered, Redis falls back, and brings back some jobs of the claim
// only: what is settled again are the same jobs, no others under their numbers.
func TestReceiptsNameTheSameJobsAfterAFallBack(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	l := &lostReply{}
	f := mustOpen(t, testEnv(hooked(t, rdb, l), Strict{"a"}))
	known(t, rdb)
	fillQueue(t, rdb, "a", 4)
	units := mustTake(t, f, 4)
	mustTake(t, f, 0, units[0]) // known to the state that comes back
	before := copyOf(t, rdb, everything...)
	moves := []Move{{Unit: units[1], To: ToRetry, Score: 1, Payload: []byte("1 failed")}, {Unit: units[2], To: ToRetry, Score: 1, Payload: []byte("2 failed")}}
	l.arm(hashOf("settle"), true)
	if _, err := f.Settle(ctx, moves); err == nil {
		t.Fatal("no error")
	}
	settleAll(t, f, moves...)
	mustTake(t, f, 0, units[3])
	before.fallBack(t, rdb, everything...)
	harness.OK(t, f.Renew(ctx))
	settleAll(t, f, moves...) // void
	mustTake(t, f, 0, units...)
	again := mustTake(t, f, 10)
	harness.EqualList(t, "run again", payloads(again), []string{"1", "2", "3"})
	for _, u := range again {
		if slices.ContainsFunc(units, func(old Unit) bool { return old.Receipt == u.Receipt }) {
			t.Errorf("receipt %s is that of an earlier unit", u.Receipt)
		}
	}
	mustTake(t, f, 0, again...)
	noClaims(t, rdb)
}

// A server that is killed and comes back with an old snapshot, and without any.
func TestRedisRestartsFromAnOldSnapshot(t *testing.T) {
	rdb, server := ownServer(t, "--save", "", "--dbfilename", "old.rdb")
	ctx := t.Context()
	env := testEnv(rdb, Strict{"a"})
	env.Lease = 3 * time.Second
	f := mustOpen(t, env)
	fillQueue(t, rdb, "a", 3)
	first := mustTake(t, f, 3)
	harness.OK(t, rdb.Save(ctx).Err())
	settleAll(t, f, Move{Unit: first[0], To: ToRetry, Score: 1}, Move{Unit: first[1], To: ToDead, Score: 1}) // forgotten
	rdb.LPush(ctx, "queue:a", "3", "4", "5", "6", "7")
	units := mustTake(t, f, 5) // likewise
	server.Kill()
	harness.OK(t, server.Restart())
	harness.Await(t, "it takes jobs again", func() bool {
		_, err := f.Take(ctx, 0, units[:1])
		return err == nil
	})
	harness.Await(t, "it settles", func() bool {
		_, err := f.Settle(ctx, []Move{{Unit: units[1], To: ToRetry, Score: 2}, {Unit: units[2], To: ToQueue}, {Unit: units[3], To: ToSchedule, Score: 2}})
		return err == nil
	})
	got := payloads(append(mustTake(t, f, 10), mustTake(t, f, 10)...))
	slices.Sort(got)
	harness.EqualList(t, "took, expected what was forgotten, and what went back", got, []string{"0", "1", "5"})
	expire(t, rdb, f.cur.id)
	if done := mustRescue(t, testRescuer(t, rdb).Rescue); done.Units != 5 {
		t.Errorf("rescued %+v", done)
	}
	want := []string{"queue 0", "queue 1", "queue 2", "queue 5", "queue 7", "retry 4", "schedule 6"}
	harness.EqualList(t, "jobs are in", wherever(t, rdb, f.cur.indexes[0], "a"), want)
}

// Redis forgets, and the writing back breaks off at each of its commands: the next call
// writes back all, once.
func TestWritingBackBreaksOff(t *testing.T) {
	rdb, _ := redistest.New(t)
	for _, applied := range []bool{false, true} {
		for commands := range 9 {
			rdb.FlushDB(t.Context())
			d := &death{left: 1 << 30, applied: applied}
			f := mustOpen(t, testEnv(hooked(t, rdb, d), Strict{"a", "b"}))
			fillQueue(t, rdb, "a", 600)
			fillQueue(t, rdb, "b", 600)
			var units []Unit
			for len(units) < 1200 {
				units = append(units, mustTake(t, f, 700)...)
			}
			rdb.FlushDB(t.Context())
			d.left = commands
			err := f.Renew(t.Context())
			d.left, d.dead = 1<<30, false
			if err != nil {
				harness.OK(t, f.Renew(t.Context()))
			}
			want := append(upTo(600), upTo(600)...)
			if got := inProgress(t, rdb, f.cur.indexes[0]); !slices.Equal(got, want) {
				t.Errorf("broken off after %d commands: %d units in progress, of 1200, or in another order", commands, len(got))
			}
			mustTake(t, f, 0, units...)
			noClaims(t, rdb)
		}
	}
}

// A job that Redis had again is behind those in hand, though it is older than they: an ack of
// one of these takes out that one.
func TestAnAckAfterAnAdoptionTakesOutItsJob(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	fillQueue(t, rdb, "a", 2)
	units := mustTake(t, f, 2)
	c := copyOf(t, rdb, theClaims...)
	mustTake(t, f, 0, units[0])
	c.fallBack(t, rdb, theClaims...)
	again := mustTake(t, f, 1)
	if got := payloads(again); !slices.Equal(got, []string{"0"}) {
		t.Fatalf("took %q, expected the job that had ended", got)
	}
	mustTake(t, f, 0, units[1])
	harness.EqualList(t, "in progress, expected the job that was not acked", inProgress(t, rdb, f.cur.indexes[0]), []string{"0"})
	mustTake(t, f, 0, again...)
	noClaims(t, rdb)
}
