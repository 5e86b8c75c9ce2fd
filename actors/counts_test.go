package actors_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
)

// classOf are the metrics of a class.
func classOf(m actors.Metrics, class string) actors.ClassMetrics {
	for _, c := range m.Classes {
		if c.Class == class {
			return c
		}
	}
	return actors.ClassMetrics{Class: "not known"}
}

func countOf(h actors.Histogram) (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// endedOf are all runs of a class.
func endedOf(c actors.ClassMetrics) uint64 {
	return c.Runs["done"] + c.Runs["error"] + c.Runs["panic"] + c.Runs["interrupted"] + c.Runs["parked"] + c.Runs["late"]
}

// watchTotals reads the metrics again and again until stop is called, and fails if a counter
// ever falls.
func watchTotals(t *testing.T, k *testkit.Kit) (stop func()) {
	t.Helper()
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		last := map[string]uint64{}
		for {
			m := k.Metrics()
			for _, c := range m.Classes {
				counters := map[string]uint64{"times": countOf(c.Times), "sum": uint64(c.Times.Sum)}
				maps.Copy(counters, c.Runs)
				maps.Copy(counters, c.Moves)
				for name, n := range counters {
					if name = c.Class + " " + name; n < last[name] {
						t.Errorf("%s fell from %d to %d", name, last[name], n)
					}
					last[name] = n
				}
			}
			select {
			case <-quit:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	return func() {
		close(quit)
		wg.Wait()
	}
}

// Jobs of two capsules end in all ways at once, while beats and others read: what Sidekiq's
// page shows and what the process tells of itself is the same, and nothing is lost.
func TestBeatAndMetricsCountTheSame(t *testing.T) {
	const each = 60
	rdb := testkit.Redis(t)
	var r troupe.Registry
	var mu sync.Mutex
	interrupted := map[string]bool{}
	for class, perform := range map[string]troupe.HandlerFunc{
		// a real Redis: a job takes some time, so that all kinds run at once
		"Done":    func(context.Context, *troupe.Payload) error { time.Sleep(300 * time.Microsecond); return nil },
		"Fails":   func(context.Context, *troupe.Payload) error { return errors.New("on purpose") },
		"Dropped": func(context.Context, *troupe.Payload) error { return troupe.Discard(nil) },
		"Dies":    func(context.Context, *troupe.Payload) error { return troupe.Kill(errors.New("on purpose")) },
		"Panics":  func(context.Context, *troupe.Payload) error { panic("on purpose") },
		"Exits":   func(context.Context, *troupe.Payload) error { runtime.Goexit(); return nil },
		"Parks":   func(context.Context, *troupe.Payload) error { return troupe.Park(time.Hour, nil) },
		"Interrupted": func(_ context.Context, p *troupe.Payload) error {
			mu.Lock()
			defer mu.Unlock()
			if !interrupted[p.JID()] {
				interrupted[p.JID()] = true
				return troupe.ErrInterrupted
			}
			return nil
		},
		"Own::Wrapper": func(context.Context, *troupe.Payload) error { return nil },
	} {
		troupe.HandleClass(&r, class, perform)
	}
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: &r, HeartbeatInterval: 5 * time.Millisecond, Logger: zerolog.Nop(),
		Capsules: []actors.Capsule{{Concurrency: 5}, {Name: "second", Concurrency: 3, Queues: fetch.Strict{"second"}}},
	})
	stop := watchTotals(t, k)
	for i := range each {
		queue := client.Queue([]string{"default", "second"}[i%2])
		for _, class := range append(r.Classes(), "Unknown") {
			k.PushClass(class, nil, queue, client.Set("wrapped", map[string]string{"Own::Wrapper": "Own::Job"}[class]))
		}
		k.PushClass("Sidekiq::ActiveJob::Wrapper", nil, queue, client.Set("wrapped", "Done"))
	}
	const classes = 11
	k.Await("all have ended", func() bool {
		m := k.Metrics()
		return k.Stats().Processed == each*classes && classOf(m, "Parks").Runs["parked"] == each && k.Stats().Waiting+k.Stats().Busy == 0
	})
	stop()
	k.Stop()
	m := k.Metrics()
	harness.Equal(t, "phase", m.Phase, "ended")
	type counts = map[string]uint64
	want := map[string]counts{
		"Done": {"done": 2 * each}, "Fails": {"error": each, "retried": each}, "Dropped": {"error": each, "dropped": each},
		"Dies": {"error": each, "died": each}, "Panics": {"panic": each, "retried": each}, "Exits": {"panic": each, "retried": each},
		"Parks": {"parked": each}, "Interrupted": {"done": each, "interrupted": each}, "Own::Wrapper": {"done": each},
		"": {"error": each, "retried": each},
	}
	page := map[string]int{}
	for _, c := range m.Classes {
		if n := countOf(c.Times); n != c.Runs["done"]+c.Runs["interrupted"] || c.Class == "Done" && c.Times.Sum < 2*each*300*time.Microsecond {
			t.Errorf("%s: %d times, %v in all", c.Class, n, c.Times.Sum)
		}
		name := c.Class
		if name == "Own::Wrapper" {
			name = "Own::Job"
		}
		if n := int(endedOf(c) - c.Runs["parked"]); n > 0 && name != "" {
			page[name+"|p"] = n
		}
		if n := int(c.Runs["error"] + c.Runs["panic"]); n > 0 && name != "" {
			page[name+"|f"] = n
		}
		got := maps.Clone(c.Runs)
		maps.Copy(got, c.Moves)
		maps.DeleteFunc(got, func(_ string, n uint64) bool { return n == 0 })
		if !maps.Equal(got, want[c.Class]) {
			t.Errorf("%q: %v, want %v", c.Class, got, want[c.Class])
		}
	}
	for _, pattern := range []string{minutes7, minutes8, tenMinutes8} {
		got := measured(t, rdb, pattern)
		maps.DeleteFunc(got, func(field string, _ int) bool { return strings.HasSuffix(field, "|ms") })
		if !maps.Equal(got, page) {
			t.Errorf("%s\n got %v\nwant %v", pattern, got, page)
		}
	}
	harness.Equal(t, "processed", rdb.Get(ctx, "stat:processed").Val(), fmt.Sprint(each*classes))
	for _, a := range m.Actors {
		if want := map[string]uint64{"processor": each}[a.Role]; a.Crashes != want {
			t.Errorf("%s of %q: %d crashes, want %d", a.Role, a.Capsule, a.Crashes, want)
		}
	}
	fetched := map[string]uint64{}
	for _, q := range m.Queues {
		fetched[q.Queue] = q.Fetched
	}
	// each is fetched once, an interrupted one twice, and some go back unstarted
	if most := uint64(each / 2 * (classes + 1)); fetched["default"] < most || fetched["second"] < most {
		t.Errorf("fetched %v", fetched)
	}
	for _, c := range m.Capsules {
		if countOf(c.Fetch) == 0 || countOf(c.Settle) == 0 || c.Fetch.Sum == 0 {
			t.Errorf("calls of %s: %+v", c.Capsule, c)
		}
	}
}

// The run of an unresponsive job goes on beside that of the job that has got its slot: both are
// counted, whichever ends first.
func TestARunWhoseSlotWasGivenAwayIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, release := unresponsiveWorld(t, 2)
		stop := watchTotals(t, k)
		for range 2 {
			k.PushClass("Stubborn", []any{})
		}
		k.Await("both have failed, and their slots are free", func() bool { return classOf(k.Metrics(), "Stubborn").Moves["retried"] == 2 })
		if m := k.Metrics().Capsules[0]; m.Unresponsive != 2 || m.OldestRun < 50*time.Millisecond || m.Processors[actors.StateIdle] != 2 {
			t.Errorf("%+v", m)
		}
		for range 50 {
			k.PushClass("Quick", []any{})
		}
		close(release)
		k.Await("all have ended", func() bool {
			m := k.Metrics()
			return classOf(m, "Quick").Runs["done"] == 50 && classOf(m, "Stubborn").Runs["late"] == 2 && m.Capsules[0].Unresponsive == 0
		})
		stop()
		got := classOf(k.Metrics(), "Stubborn")
		if endedOf(got) != 4 || got.Moves["retried"] != 2 || countOf(got.Times) != 2 {
			t.Errorf("%+v", got)
		}
		if s := k.Stats(); s.Processed != 54 || s.Failed != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// A capsule that gets fewer processors keeps the counts of those that are gone, and counts on
// where they ended when it gets more.
func TestCountsOutliveProcessors(t *testing.T) {
	s := newGate()
	close(s.out)
	var r troupe.Registry
	troupe.HandleClass(&r, "Gate", s)
	k := testkit.Start(t, actors.Config{Redis: testkit.Redis(t), Registry: &r, Concurrency: 8})
	stop := watchTotals(t, k)
	pushed := uint64(0)
	up := func() bool {
		return inState(k, "launcher/default", actors.StateRunning)() && inState(k, "launcher/default/processor-0", actors.StateIdle)()
	}
	crashed := map[string]uint64{}
	counted := func() bool {
		for _, a := range k.Metrics().Actors {
			if a.Crashes < crashed[a.Role] || a.Restarts < crashed[a.Role] {
				return false
			}
		}
		return true
	}
	for i, n := range []int{8, 1, 12, 3, 5} {
		if err := k.Configure(ctx, actors.Capsule{Concurrency: n}); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			k.PushClass("Gate", nil)
			pushed++
		}
		if i%2 == 0 {
			k.Crash("launcher/default/processor-0", errors.New("on purpose"))
			crashed["processor"]++
		} else {
			k.Crash("launcher/default", errors.New("on purpose"))
			crashed["manager"]++
		}
		k.Await("all have run", func() bool {
			return classOf(k.Metrics(), "Gate").Runs["done"] == pushed && counted() && up()
		})
	}
	stop()
	harness.Equal(t, "processed", k.Stats().Processed, pushed)
	for _, a := range k.Metrics().Actors {
		if want := crashed[a.Role]; a.Crashes != want || a.Restarts < want {
			t.Errorf("%+v, want %d crashes", a, want)
		}
	}
}

// One wait of 16 is measured, and stands for the others: by seconds as Sidekiq 6 and 7 write
// them, and by milliseconds as 8 does.
func TestWaitsAreSampled(t *testing.T) {
	for name, of := range map[string]func(at time.Time) any{
		"float": func(at time.Time) any { return float64(at.UnixMilli()) / 1e3 },
		"ms":    func(at time.Time) any { return at.UnixMilli() },
		"none":  func(time.Time) any { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				close(g.out)
				var r troupe.Registry
				troupe.HandleClass(&r, "Gate", g)
				mem := testkit.NewMemory(t)
				for i := range 33 {
					text := fmt.Sprintf(`{"class":"Gate","args":[],"jid":"%024d"}`, i)
					if at := of(time.Now()); at != nil {
						text = strings.Replace(text, "{", fmt.Sprintf(`{"enqueued_at":%v,`, at), 1)
					}
					mem.Client.LPush(ctx, "queue:default", text)
				}
				time.Sleep(time.Minute)
				k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r})
				k.Await("all have run", func() bool { return classOf(k.Metrics(), "Gate").Runs["done"] == 33 })
				waits, want := k.Metrics().Queues[0].Waits, uint64(48) // the 1st, 17th and 33rd
				if name == "none" {
					want = 0
				}
				at := 0
				for i, limit := range waits.Limits {
					if limit == 65*time.Second {
						at = i
					}
				}
				mean := waits.Sum / time.Duration(max(1, want))
				if countOf(waits) != want || waits.Counts[at] != want || want > 0 && (mean < time.Minute || mean > time.Minute+time.Second) {
					t.Errorf("%+v, want %d of a minute", waits, want)
				}
			})
		})
	}
}

// The time that Redis was away grows while it is, and stays.
func TestOutagesAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		k := testkit.Start(t, actors.Config{Redis: mem.Client})
		k.Await("a beat", func() bool { return k.Metrics().RedisRTT > 0 || mem.Client.Exists(ctx, k.Identity()).Val() > 0 })
		if m := k.Metrics(); !m.RedisUp || m.RedisOutage != 0 || m.Phase != "running" {
			t.Errorf("%+v", m)
		}
		total := time.Duration(0)
		for range 2 {
			mem.Kill()
			time.Sleep(time.Minute)
			m := k.Metrics()
			if more := m.RedisOutage - total; m.RedisUp || more < 30*time.Second || more > time.Minute {
				t.Errorf("after a minute: up %v, away for %v more", m.RedisUp, more)
			}
			mem.Restart()
			k.Await("redis is back", func() bool { return k.Metrics().RedisUp })
			last := total
			total = k.Metrics().RedisOutage
			if more := total - last; more < 30*time.Second || more > 70*time.Second {
				t.Errorf("%v for a minute", more)
			}
			time.Sleep(time.Minute)
			if got := k.Metrics().RedisOutage; got != total {
				t.Errorf("away for %v, a minute later for %v", total, got)
			}
		}
	})
}

// What is done about jobs of dead processes, and at the deadline of a stop.
func TestMovesOfJobsThatDidNotFail(t *testing.T) {
	rdb, g := testkit.Redis(t), newGate()
	var r troupe.Registry
	troupe.HandleClass(&r, "Gate", g)
	troupe.HandleClass(&r, "Sent", g, troupe.Options{Recovery: troupe.Recovery{Queue: "elsewhere"}})
	orphan(t, rdb, `{"class":"Sent","args":[],"jid":"000000000000000000000001"}`, false)
	orphan(t, rdb, `{"class":"Gate","args":[],"jid":"000000000000000000000002"}`, true)
	recoveredBefore(t, rdb, "000000000000000000000002", 2)
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Timeout: time.Millisecond, Grace: time.Minute, Lease: time.Second})
	k.Await("both are rescued", func() bool {
		m := k.Metrics()
		return classOf(m, "Sent").Moves["rerouted"] == 1 && classOf(m, "Gate").Moves["poisoned"] == 1 && m.Rescued == 2
	})
	k.PushClass("Gate", nil)
	k.Await("it runs", func() bool { return g.in.Load() == 1 })
	k.Stop()
	got := classOf(k.Metrics(), "Gate")
	if got.Moves["requeued"] != 1 || got.Runs["late"] != 1 || endedOf(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// The part of a budget that is used falls when its period has passed.
func TestBudgetsAreThoseOfTheStrategies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testkit.Start(t, actors.Config{
			Strategy: supervisor.OneForOne(supervisor.Spec{Intensity: 4, Period: time.Minute}),
			Capsules: []actors.Capsule{{Concurrency: 1}, {Name: "odd", Concurrency: 1, Queues: fetch.Strict{"odd"}, Strategy: supervisor.FromProtoactor(idleStrategy{})}},
		})
		used := func(want float64) {
			t.Helper()
			if got := k.Metrics().Budgets; len(got) != 2 || got["launcher"] != want || got["launcher/default"] != 0 {
				t.Errorf("budgets %v, want %v of the launcher's", got, want)
			}
		}
		used(0)
		k.Crash("launcher/poller", errors.New("on purpose"))
		k.Await("it runs again", func() bool { return k.Tree().Find("launcher/poller").Restarts == 1 })
		used(0.25)
		if tree := k.Tree(); tree.Find("launcher").Budget.String() != "1/4 in 60s" || !strings.Contains(tree.String(), "  budget 1/4 in 60s") || tree.Find("launcher/odd").Budget != nil || tree.Find("launcher/poller").Budget != nil {
			t.Errorf("budgets in the tree:\n%s", tree)
		}
		time.Sleep(2 * time.Minute)
		used(0)
	})
}
