package actors_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// TestRandomCrashesAndStops runs random mixes of jobs while random actors crash,
// then stops at a random time with a short deadline while they still crash. In
// the end every job is in exactly one place: done, retry, dead or its queue; and
// what ran more than once was requeued in between. TROUPE_ROUNDS sets the number
// of rounds, TROUPE_SEED the first seed.
func TestRandomCrashesAndStops(t *testing.T) {
	rounds, first := 40, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("TROUPE_ROUNDS")); err == nil {
		rounds = n
	}
	if n, err := strconv.ParseUint(os.Getenv("TROUPE_SEED"), 10, 64); err == nil {
		first = n
	}
	for seed := first; seed < first+uint64(rounds); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomRound(t, seed) })
		})
	}
}

func randomRound(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	s := script.New(t)
	capsules := []actors.Capsule{{Concurrency: 1 + r.IntN(6)}}
	if r.IntN(2) == 0 {
		capsules = append(capsules, actors.Capsule{Name: "second", Concurrency: 1 + r.IntN(3)}) // on the same queue
	}
	k := testkit.Start(t, actors.Config{
		Registry: s.Registry(), Capsules: capsules,
		Timeout: time.Duration(r.IntN(3000)) * time.Millisecond, Grace: 300 * time.Millisecond,
	})
	steps := []script.Step{
		script.OK(), script.OK(), script.OK(), script.Fail(), script.Panic(), {Do: "goexit"}, {Do: "kill"}, {Do: "discard"}, script.Hang(), {Do: "unresponsive"},
	}
	pushed := map[string]string{}
	for range 20 + r.IntN(60) {
		step := steps[r.IntN(len(steps))]
		if r.IntN(3) == 0 {
			step = script.Slow(time.Duration(r.IntN(2000)) * time.Millisecond)
		}
		pushed[k.Push(step)] = step.Do
	}
	crash := func() {
		tree := k.Tree()
		_ = k.Daemon.Faults().Crash(tree[r.IntN(len(tree))].Path, errInjected) // it may be gone
	}
	for range r.IntN(12) {
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		crash()
	}
	time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
	ended := make(chan actors.DrainReport)
	go func() { ended <- k.Stop() }()
	for range r.IntN(8) {
		time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
		crash()
	}
	report := <-ended
	s.Release()
	time.Sleep(3 * time.Second) // the slow ones end late
	synctest.Wait()

	if n := inProgress(t, k.Redis); n != 0 || len(report.Left)+len(report.Lost) > 0 {
		t.Errorf("%d left in progress\n%s", n, report)
	}
	places := map[string][]string{}
	for key, raws := range map[string][]string{
		"queue": k.Redis.LRange(ctx, "queue:default", 0, -1).Val(),
		"retry": k.Redis.ZRange(ctx, "retry", 0, -1).Val(),
		"dead":  k.Redis.ZRange(ctx, "dead", 0, -1).Val(),
	} {
		for _, raw := range raws {
			p, err := troupe.ParsePayload([]byte(raw))
			if err != nil {
				t.Fatalf("in %s: %v", key, err)
			}
			places[p.JID()] = append(places[p.JID()], key)
		}
	}
	requeued := map[string]bool{}
	for _, j := range report.Requeued {
		requeued[j.JID] = true
	}
	runs, most := s.Runs(), s.Most()
	limit := 0
	for _, c := range capsules {
		limit += c.Concurrency
	}
	if most > limit {
		t.Errorf("%d jobs at once, the limit is %d", most, limit)
	}
	for jid, step := range pushed {
		where := places[jid]
		var ok bool
		switch {
		case len(where) > 1:
		case runs[jid] == 0 || requeued[jid]:
			ok = len(where) == 1 && where[0] == "queue"
		case step == "fail" || step == "panic" || step == "goexit":
			ok = len(where) == 1 && where[0] == "retry"
		case step == "kill":
			ok = len(where) == 1 && where[0] == "dead"
		default:
			ok = len(where) == 0
		}
		if !ok || runs[jid] > 1 {
			t.Errorf("%s job %s: ran %d times, requeued %v, is in %q", step, jid, runs[jid], requeued[jid], where)
		}
	}
}
