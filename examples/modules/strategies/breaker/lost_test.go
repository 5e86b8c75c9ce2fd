package breaker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/testkit"
)

// Whatever the dependency does, and whenever the daemon is stopped and started
// again: in the end every job is done, and none is anywhere else.
func TestNoJobIsLost(t *testing.T) {
	for range 5 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 4))
				m := testkit.NewMemory(t)
				up := time.Now().Add(time.Duration(60+r.IntN(120)) * time.Second)
				fate := rand.New(rand.NewPCG(seed, 5)) // used under the bank's lock
				latency, errors, panics, parks := time.Duration(r.IntN(3000))*time.Millisecond, r.IntN(70), r.IntN(30), r.IntN(20)
				var b *bank
				b = newBank(func(ctx context.Context, _ int) error {
					b.mu.Lock()
					n := fate.IntN(100)
					b.mu.Unlock()
					select {
					case <-time.After(latency):
					case <-ctx.Done():
						return context.Cause(ctx)
					}
					switch {
					case time.Now().After(up):
					case n < errors:
						return errDown
					case n < errors+panics:
						panic("random")
					case n < errors+panics+parks:
						return troupe.Park(time.Duration(n)*100*time.Millisecond, nil)
					}
					return nil
				})
				jobs := 0
				start := func() *testkit.Kit {
					br := New(Config{
						Minimum: uint(1 + r.IntN(10)), Ratio: 0.1 + 0.8*r.Float64(), Window: time.Duration(5+r.IntN(60)) * time.Second,
						Delay: time.Duration(1+r.IntN(20)) * time.Second,
					})
					cfg := config(m.Client, br, registry(map[string]troupe.Handler{"Charge": b, "Refund": b}))
					cfg.Timeout = time.Second
					cfg.Capsules[0].Concurrency = 1 + r.IntN(5)
					k := testkit.Start(t, cfg, testkit.Strict())
					k.Allow(testkit.Crashes("launcher/default/processor-*").AtLeast(0))
					for range 10 + r.IntN(15) {
						k.PushClass([]string{"Charge", "Refund"}[r.IntN(2)], []any{jobs}, client.Queue([]string{"charges", "mails"}[r.IntN(2)]))
						jobs++
						time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
					}
					return k
				}
				for range 1 + r.IntN(2) {
					start().Stop()
				}
				k := start()
				allDone(k, b, jobs)
				for _, key := range []string{"schedule", "retry", "dead", "queue:charges", "queue:mails"} {
					if n := size(t, m.Client, key); n != 0 {
						t.Errorf("%s still has %d jobs", key, n)
					}
				}
			})
		})
	}
}

// The same on a real Redis, in real time: what was not tried while the bank was
// down is done when it is back, and what failed waits as a retry.
func TestOnARealRedis(t *testing.T) {
	rdb := testkit.Redis(t)
	const jobs, minimum, concurrency = 60, 5, 4
	const delay = 200 * time.Millisecond
	var down atomic.Bool
	down.Store(true)
	b := newBank(func(context.Context, int) error {
		time.Sleep(time.Millisecond) // a call takes some time
		if down.Load() {
			return errDown
		}
		return nil
	})
	br := New(Config{Minimum: minimum, Delay: delay})
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: registry(map[string]troupe.Handler{"Charge": b}),
		Capsules: []actors.Capsule{{
			Concurrency: concurrency, Queues: actors.Strict{"charges"},
			Strategy: br.Strategy, Middleware: []troupe.Middleware{br.Middleware},
		}},
	}, testkit.Strict())
	began := time.Now()
	push(k, jobs, "Charge")
	k.Await("the circuit is open", func() bool { return br.State("Charge") == circuitbreaker.OpenState })
	time.Sleep(time.Second) // for some probes
	down.Store(false)
	outage := time.Since(began)
	k.Await("all jobs are done or to be retried", func() bool {
		_, done := b.count()
		return int64(done)+size(t, rdb, "retry") == jobs && size(t, rdb, "schedule")+size(t, rdb, "queue:charges") == 0
	})
	k.Await("all settled", k.Settled)
	// the probes of the outage, and one that came a moment too early
	if n := size(t, rdb, "retry"); n < minimum || n > minimum+concurrency-1+int64(outage/delay)+1 {
		t.Errorf("%d jobs failed", n)
	}
	if br.State("Charge") != circuitbreaker.ClosedState {
		t.Errorf("the circuit is %s", br.State("Charge"))
	}
}
