package fetchtest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/troupehq/troupe/fetch"
)

// shortLease is the lease of fetchers that are going to die in a test.
const shortLease = 300 * time.Millisecond

// Crash checks that nothing is lost, whatever dies: the fetcher's process at
// each step, a reply, the lease, Redis itself, a rescuer. Its tests run in
// parallel. TestMain must call Main.
func Crash(t *testing.T, h Harness) {
	if os.Getenv(childEnv) != "" {
		t.Fatal("fetchtest: TestMain must call fetchtest.Main")
	}
	t.Run("durable", func(t *testing.T) {
		r := setUp(t, h)
		f := r.fetcher(fetch.Strict{"a"})
		if !f.Durable() {
			t.Error("the fetcher says that it is not durable")
		}
		r.close(f)
	})
	if t.Failed() {
		return
	}
	for _, step := range steps {
		t.Run("killed at "+step, func(t *testing.T) {
			t.Parallel()
			killedAt(setUp(t, h), step)
		})
	}
	for _, op := range lostOps {
		if op.name == settleElsewhere && h.Stays {
			continue
		}
		for _, kind := range []fault{cutBefore, cutAfter, late} {
			t.Run("lost reply/"+op.name+", "+kind.String(), func(t *testing.T) {
				t.Parallel()
				lostReply(setUp(t, h), op, kind, -1)
			})
		}
		t.Run("lost reply/"+op.name+", client repeats silently", func(t *testing.T) {
			t.Parallel()
			lostReply(setUp(t, h), op, cutAfter, 3)
		})
	}
	for name, test := range map[string]func(*rig){
		"killed at random":         killedAtRandom,
		"paused and continued":     pausedAndContinued,
		"lease runs out":           leaseRunsOut,
		"fenced":                   fenced,
		"close leaves units":       closeLeavesUnits,
		"rescue keeps order":       rescueKeepsOrder,
		"rescue of 5,000":          rescueMany,
		"rescue keeps bytes":       rescueKeepsBytes,
		"rescue passes by a block": rescueWrongType,
		"rescue spares the living": rescueSparesLiving,
		"two rescuers":             twoRescuers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(setUp(t, h))
		})
	}
	t.Run("redis forgets", func(t *testing.T) {
		t.Parallel()
		redisForgets(t, h)
	})
}

// dying makes a fetcher that will never be closed: to all others it is dead
// when its lease is over.
func (r *rig) dying(capsule string, queues fetch.Queues) fetch.Fetcher {
	r.t.Helper()
	env := r.env(capsule, queues)
	env.Lease = shortLease
	return r.start(env)
}

// dyingWith makes one that has taken n jobs of a queue, within a lease that a loaded machine keeps.
func (r *rig) dyingWith(capsule, queue string, n int) {
	r.t.Helper()
	env := r.env(capsule, fetch.Strict{queue})
	env.Lease = 5 * time.Second
	f := r.start(env)
	for taken := 0; taken < n; {
		taken += len(r.take(f, min(n-taken, 1000)))
		r.must("renew", f.Renew(r.ctx))
	}
}

// rescueUntil makes rounds until done says that all is back.
func (r *rig) rescueUntil(what string, done func() bool) {
	r.t.Helper()
	r.until(what, func() bool {
		r.must("rescue", r.Rescue(r.ctx, r.rdb, shortLease))
		return done()
	})
}

// ledger stands in for the daemon's: what is fetched and not settled.
type ledger map[string]fetch.Unit

func (l ledger) add(units []fetch.Unit) {
	for _, u := range units {
		l[u.Receipt] = u
	}
}

func (l ledger) drop(units ...fetch.Unit) {
	for _, u := range units {
		delete(l, u.Receipt)
	}
}

// eventually repeats a call that may fail, as a daemon does.
func (r *rig) eventually(what string, call func(context.Context) error) {
	r.t.Helper()
	var err error
	for range 6 {
		if err = call(r.ctx); err == nil {
			return
		}
	}
	r.t.Fatalf("%s: still failing: %v", what, err)
}
