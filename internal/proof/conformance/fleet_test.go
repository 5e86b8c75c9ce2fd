package conformance

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/testkit"
)

// fleet is a site with Ruby and Go servers on the same queues.
type fleet struct {
	*site
	draw  *rand.Rand // jobs
	soon  *rand.Rand // times of retries
	jobs  []*fleetJob
	slots []*fleetSlot
	lives []*fleetProcess // processes that have ended
	log   fleetLog
}

// Ruby and Go servers share three queues, with immediate, scheduled, failing and
// dying jobs of both clients, while processes of both sides are told to stop and
// replaced, all the time. After it every job's history adds up, and so do the
// statistics. TROUPE_FLEET=5m makes it longer, TROUPE_FLEET_SEED repeats a seed
// (what the machine does in between is its own).
func TestMixedFleet(t *testing.T) {
	s := newSite(t)
	needRuby(t)
	load, seed := 20*time.Second, rand.Uint64()
	if text := os.Getenv("TROUPE_FLEET"); text != "" {
		var err error
		load, err = time.ParseDuration(text)
		s.must(err)
	}
	if text := os.Getenv("TROUPE_FLEET_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		s.must(err)
	}
	t.Logf("TROUPE_FLEET_SEED=%d", seed)
	random := func(of uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, of)) } // each its own: they take turns as it comes
	f := &fleet{site: s, draw: random(0), soon: random(1)}
	for i, side := range []string{"go", "ruby", "go", "ruby"} {
		f.slots = append(f.slots, &fleetSlot{f: f, side: side, r: random(uint64(2 + i))})
	}

	began := time.Now()
	next := began
	for f.tick(); time.Since(began) < load || !f.seenEnough(); f.tick() {
		if now := time.Now(); now.After(next) { // a burst, so that there is work for both sides
			next = now.Add(time.Second)
			f.burst(60)
		}
		if time.Since(began) > load+3*time.Minute {
			t.Fatalf("after %s: %+v", time.Since(began), f.log.seen())
		}
	}
	pushed := time.Now()
	for ; !f.allEnded(); f.tick() { // stops go on: jobs still hang
		if time.Since(pushed) > 2*time.Minute {
			f.audit()
			t.Fatalf("%d jobs have not ended", len(f.unended()))
		}
	}
	for _, slot := range f.slots {
		if slot.now == nil {
			continue
		}
		testkit.Await(t, "the last processes are ready", slot.now.ready)
		if !slot.stopped {
			slot.stop()
		}
	}
	for _, slot := range f.slots {
		if slot.now != nil {
			f.readStop(slot.now)
		}
	}
	t.Logf("%d jobs in %s, %d processes stopped; %+v", len(f.jobs), time.Since(began).Round(time.Second), len(f.lives), f.log.seen())
	f.audit()
}

// tick lets the fleet go on for a moment.
func (f *fleet) tick() {
	f.t.Helper()
	for _, slot := range f.slots {
		slot.tick()
	}
	f.retrySoon()
	f.log.read(f)
	time.Sleep(20 * time.Millisecond) // the pace of the test; nothing is waited for
}

// burst pushes n jobs, half of them from Go and half from Ruby.
func (f *fleet) burst(n int) {
	f.t.Helper()
	var jobs []*fleetJob
	for range n {
		jobs = append(jobs, drawFleetJob(f.draw))
	}
	f.pushGo(jobs[:n/2])
	f.pushRuby(jobs[n/2:])
	f.jobs = append(f.jobs, jobs...)
}

// retrySoon makes retries due within half a second instead of 15 s and more.
func (f *fleet) retrySoon() {
	f.t.Helper()
	now := scores.Of(time.Now())
	late, err := f.rdb.ZRangeArgs(f.t.Context(), redis.ZRangeArgs{
		Key: "retry", ByScore: true, Start: now + 5, Stop: "+inf",
	}).Result()
	f.must(err)
	for _, raw := range late {
		f.must(f.rdb.ZAddXX(f.t.Context(), "retry", redis.Z{Score: now + f.soon.Float64()/2, Member: raw}).Err())
	}
}
