package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// gemAsks is what the gem sidekiq-throttled does when it is asked for a job: slots that are over go, then the job gets one if
// there is room, and the key lives for as long as the gem trusts a job.
func gemAsks(t *testing.T, rdb *redis.Client, key, jid string, limit int64, threshold time.Duration) bool {
	t.Helper()
	now := float64(time.Now().UnixMicro()) / 1e6
	harness.OK(t, rdb.ZRemRangeByScore(t.Context(), key, "-inf", fmt.Sprintf("(%f", now)).Err())
	if rdb.ZCard(t.Context(), key).Val() >= limit {
		return false
	}
	harness.OK(t, rdb.ZAdd(t.Context(), key, redis.Z{Score: now + threshold.Seconds(), Member: jid}).Err())
	harness.OK(t, rdb.Expire(t.Context(), key, threshold).Err())
	return true
}

// limited counts the runs of a class in virtual time.
type limited struct {
	mu        sync.Mutex
	now, most int
	ran       map[string][]string // jid -> the bytes of each run
}

// handle registers a class of limits whose jobs last until over ends their wait, or they are cancelled.
func (l *limited) handle(r *troupe.Registry, class string, over func() <-chan time.Time, limits ...troupe.Limit) {
	l.ran = map[string][]string{}
	troupe.HandleClass(r, class, troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		l.mu.Lock()
		l.now++
		l.most = max(l.most, l.now)
		l.ran[p.JID()] = append(l.ran[p.JID()], string(p.Bytes()))
		l.mu.Unlock()
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.now--
		}()
		select {
		case <-over():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}), troupe.Options{Limits: limits})
}

func lasts(d time.Duration) func() <-chan time.Time {
	return func() <-chan time.Time { return time.After(d) }
}

// gated is a job that ends when the channel is closed.
func gated() (over chan time.Time, wait func() <-chan time.Time) {
	over = make(chan time.Time)
	return over, func() <-chan time.Time { return over }
}

// forms are the two forms of a limit, by the key of its slots.
var forms = map[string]troupe.Limit{
	"troupe:slots:one":             {Name: "one", AtOnce: 1},
	"throttled:one:concurrency.v2": {Name: "one", AtOnce: 1, Throttled: true},
}

// A job that runs for 20 minutes keeps its slot, for troupe and for the gem, also where the gem trusts a job for half a minute.
func TestLimitsALongJobKeepsItsSlot(t *testing.T) {
	for key, limit := range forms {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := testkit.NewMemory(t)
				gemAsks(t, mem.Client, key, "ruby", 1, 30*time.Second) // a job of Ruby's was there
				harness.OK(t, mem.Client.ZRem(t.Context(), key, "ruby").Err())
				var r troupe.Registry
				var l limited
				l.handle(&r, "C", lasts(20*time.Minute), limit)
				k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 3}}})
				began, jid := time.Now(), k.PushClass("C", nil)
				k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
				for time.Since(began) < 19*time.Minute {
					time.Sleep(4 * time.Second)
					if at := mem.Client.ZScore(t.Context(), key, jid).Val(); at < float64(time.Now().Unix()) {
						t.Fatalf("after %v its slot ends at %f", time.Since(began), at)
					}
					if gemAsks(t, mem.Client, key, "ruby", 1, 30*time.Second) {
						t.Fatalf("after %v the gem has let a second job in", time.Since(began))
					}
				}
				k.PushClass("C", nil)
				time.Sleep(22 * time.Minute)
				harness.Equal(t, "done", k.Stats().Processed, 2)
				k.Stop()
				harness.Equal(t, "most at once", l.most, 1)
				harness.Equal(t, "slots", mem.Client.ZCard(t.Context(), key).Val(), 0)
			})
		})
	}
}

// A slot of Ruby's, which the gem trusts for 15 minutes, is not forgotten early because a job of Go's had one beside it.
func TestLimitsASlotOfRubysIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		const key = "throttled:two:concurrency.v2"
		var r troupe.Registry
		var l limited
		l.handle(&r, "C", lasts(time.Second), troupe.Limit{Name: "two", AtOnce: 2, Throttled: true})
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r})
		if !gemAsks(t, mem.Client, key, "ruby", 2, 15*time.Minute) {
			t.Fatal("the gem is refused a slot that is free")
		}
		k.PushClass("C", nil)
		k.Await("Go's job is done", func() bool { return k.Stats().Processed == 1 })
		time.Sleep(14 * time.Minute)
		harness.Equal(t, "slots", fmt.Sprint(mem.Client.ZRange(t.Context(), key, 0, -1).Val()), "[ruby]")
		k.Stop()
	})
}

// The slot of a process that is gone is free within its lease and 15 s, and not before the lease is over.
func TestLimitsTheSlotOfAKilledProcessEnds(t *testing.T) {
	for key, limit := range forms {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := testkit.NewMemory(t)
				network := chaos.NewProxy(t, mem.Options())
				var r troupe.Registry
				var l limited
				l.handle(&r, "C", lasts(time.Hour), limit)
				k := testkit.Start(t, actors.Config{Redis: network.Client(), Registry: &r})
				k.PushClass("C", nil)
				k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
				time.Sleep(5 * time.Minute)
				network.Kill() // as seen from Redis, the process is gone
				killed := time.Now()
				for !gemAsks(t, mem.Client, key, "ruby", 1, time.Minute) {
					if time.Sleep(100 * time.Millisecond); time.Since(killed) > time.Minute {
						t.Fatal("its slot is still taken")
					}
				}
				if after := time.Since(killed); after < 30*time.Second || after > 45*time.Second+100*time.Millisecond {
					t.Errorf("its slot was free after %v", after)
				}
			})
		})
	}
}

// A job that one of its limits refuses has no slot of the others.
func TestLimitsARefusalHoldsNoOtherSlot(t *testing.T) {
	for name, wide := range map[string]troupe.Limit{
		"troupe:slots:":             {Name: "wide", AtOnce: 3},
		"throttled:concurrency.v2:": {Name: "wide", AtOnce: 3, Throttled: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := testkit.NewMemory(t)
				key := "troupe:slots:wide"
				if wide.Throttled {
					key = "throttled:wide:concurrency.v2"
				}
				var r troupe.Registry
				var both, alone limited
				over, wait := gated()
				both.handle(&r, "Both", wait, wide, troupe.Limit{Name: "narrow", AtOnce: 1}, troupe.Limit{Name: "often", Rate: 1000, Burst: 1000})
				alone.handle(&r, "Alone", wait, wide)
				k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 20}}})
				want := []string{k.PushClass("Both", nil)}
				k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
				for range 10 {
					k.PushClass("Both", nil)
				}
				time.Sleep(5 * time.Second) // shorter than a slot lives that nobody holds
				harness.Equal(t, "held", mem.Client.ZCard(t.Context(), "troupe:held:narrow").Val(), 10)
				harness.EqualList(t, "slots of the wide limit", mem.Client.ZRange(t.Context(), key, 0, -1).Val(), want)
				want = append(want, k.PushClass("Alone", nil), k.PushClass("Alone", nil)) // they find room at once
				time.Sleep(time.Second)
				harness.Equal(t, "jobs that run", k.Stats().Busy, 3)
				slices.Sort(want)
				slots := mem.Client.ZRange(t.Context(), key, 0, -1).Val()
				slices.Sort(slots)
				harness.EqualList(t, "slots of the wide limit", slots, want)
				close(over)
				k.Await("all done", func() bool { return k.Stats().Processed == 13 && k.Stats().Busy == 0 })
				k.Stop()
				harness.Equal(t, "slots", mem.Client.Exists(t.Context(), key, "troupe:slots:narrow").Val(), 0)
			})
		})
	}
}

// A thousand refusals change no byte of a job and no statistic, and each job runs once.
func TestLimitsRefusalsAreNoFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 1000
		mem := testkit.NewMemory(t)
		ctx := t.Context()
		var r troupe.Registry
		var l limited
		over, wait := gated()
		l.handle(&r, "C", wait, troupe.Limit{Name: "one", AtOnce: 1})
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r})
		stats := func() string {
			day := time.Now().UTC().Format(time.DateOnly)
			return fmt.Sprint(mem.Client.MGet(ctx, "stat:processed", "stat:failed", "stat:processed:"+day, "stat:failed:"+day).Val())
		}
		first := k.PushClass("C", nil)
		k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
		before := stats()
		pushed := map[string]string{}
		for i := range jobs {
			raw := fmt.Sprintf(`{"class":"C","args":[%d, 1.10],"jid":"%024d","queue":"default","retry":3,"retry_count":1,"failed_at":1795371010.5,"created_at":1795371010.0,"enqueued_at":%d.25}`, i, i, 1795371010+i)
			harness.OK(t, mem.Client.LPush(ctx, "queue:default", raw).Err())
			pushed[fmt.Sprintf("%024d", i)] = raw
		}
		k.Await("they are held", func() bool { return mem.Client.ZCard(ctx, "troupe:held:one").Val() == jobs })
		time.Sleep(time.Minute) // beats write statistics
		for _, member := range mem.Client.ZRange(ctx, "troupe:held:one", 0, -1).Val() {
			h, ok := job.ParseHeld(member)
			if !ok || pushed[h.JID] != string(h.Payload) {
				t.Fatalf("held is %s, pushed was %s", member, pushed[h.JID])
			}
		}
		harness.Equal(t, "statistics", stats(), before)
		harness.Equal(t, "retries and dead", mem.Client.Exists(ctx, "retry", "dead", "schedule").Val(), 0)
		close(over)
		k.Await("all done", func() bool { return k.Stats().Processed == jobs+1 && k.Stats().Busy == 0 })
		k.Stop()
		harness.Equal(t, "statistics", mem.Client.Get(ctx, "stat:processed").Val(), fmt.Sprint(jobs+1))
		if failed := mem.Client.Get(ctx, "stat:failed").Val(); strings.Trim(failed, "0") != "" {
			t.Errorf("%s have failed", failed)
		}
		delete(l.ran, first)
		for jid, raw := range pushed {
			harness.EqualList(t, "runs of "+jid, l.ran[jid], []string{raw})
		}
		harness.Equal(t, "jobs that ran", len(slices.Collect(maps.Keys(l.ran))), jobs)
		harness.Equal(t, "most at once", l.most, 1)
	})
}
