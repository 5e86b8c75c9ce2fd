package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/wire/laravel"
)

// keyed counts the runs of a class that takes its time.
type keyed struct {
	mu     sync.Mutex
	now    map[string]int
	most   map[string]int
	starts []time.Time
	ran    []string
}

// handle registers class C of limits, whose jobs have a key and a number, and take d.
func (l *keyed) handle(r *troupe.Registry, d time.Duration, limits ...troupe.Limit) {
	l.now, l.most = map[string]int{}, map[string]int{}
	troupe.HandleClass(r, "C", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		key := fmt.Sprint(string(p.Args()))
		key = key[:5]
		l.mu.Lock()
		l.now[key]++
		l.most[key] = max(l.most[key], l.now[key])
		l.starts = append(l.starts, time.Now())
		l.ran = append(l.ran, string(p.Args()))
		l.mu.Unlock()
		time.Sleep(d)
		l.mu.Lock()
		l.now[key]--
		l.mu.Unlock()
		return nil
	}), troupe.Options{Limits: limits})
}

// No more jobs of a key run at once than its limit says, in the order of their pushes, and each once.
func TestJobsOfAKeyRunOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var l keyed
		l.handle(&r, 20*time.Millisecond, troupe.Limit{Name: "tenant", AtOnce: 1, By: "0"})
		var held atomic.Int64
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 8}}})
		k.Daemon.Subscribe(func(e event.Event) {
			if e, ok := e.(event.JobHeld); ok && e.Rule != "" {
				held.Add(1)
			}
		})
		began := time.Now()
		for i := range 60 {
			_, err := client.New(mem.Client).PushClass(ctx, "C", []any{fmt.Sprint("t", i%3), i})
			harness.OK(t, err)
		}
		k.Await("all done", func() bool { return k.Stats().Processed == 60 && k.Stats().Busy == 0 })
		took := time.Since(began)
		k.Stop()
		harness.Equal(t, "runs", len(l.ran), 60)
		harness.Equal(t, "most of a key at once", fmt.Sprint(l.most), `map[["t0":1 ["t1":1 ["t2":1]`)
		if took > 800*time.Millisecond {
			t.Errorf("20 jobs of 20 ms one after another took %v", took)
		}
		if held.Load() == 0 {
			t.Error("no event tells of a held job")
		}
		harness.Equal(t, "keys left", len(mem.Client.Keys(ctx, "troupe:held*").Val()), 0)
	})
}

// A rate is kept to the token, and its burst comes at once.
func TestARateIsKept(t *testing.T) {
	for _, c := range []struct{ rate, limit, burst int }{{10, 0, 1}, {10, 2, 2}, {10, 5, 5}, {100, 0, 1}, {1000, 0, 10}, {2000, 100, 100}} {
		t.Run(fmt.Sprintf("%d a second, burst %d", c.rate, c.burst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { keepsRate(t, c.rate, c.limit, c.burst) })
		})
	}
}

func keepsRate(t *testing.T, rate, limit, burst int) {
	mem := testkit.NewMemory(t)
	var r troupe.Registry
	var l keyed
	l.handle(&r, time.Millisecond, troupe.Limit{Name: "api", Rate: rate, Burst: limit})
	jobs := max(rate, 100)
	for i := range jobs + burst {
		_, err := client.New(mem.Client).PushClass(ctx, "C", []any{"t0", i})
		harness.OK(t, err)
	}
	k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 8}}})
	k.Await("all done", func() bool { return k.Stats().Processed == uint64(jobs+burst) && k.Stats().Busy == 0 })
	k.Stop()
	at, last := 0, l.starts[jobs+burst-1].Sub(l.starts[0])
	for _, s := range l.starts {
		if s.Sub(l.starts[0]) < time.Second/time.Duration(rate)/2 {
			at++
		}
	}
	if burst <= 8 { // at once; others wait for a worker
		harness.Equal(t, "jobs of the burst", at, burst)
	}
	want := time.Duration(jobs) * time.Second / time.Duration(rate)
	if last < want*99/100 || last > want*102/100+100*time.Millisecond {
		t.Errorf("%d more jobs at %d a second took %v, want %v", jobs, rate, last, want)
	}
}

// Jobs of a call ask together before their runs, and those that are given back since no worker has time leave again.
func TestJobsAskAheadOfTheirRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		blocked, end := make(chan struct{}), make(chan struct{})
		troupe.HandleClass(&r, "C", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
			time.Sleep(100 * time.Microsecond)
			if string(p.Args()) == "[299]" {
				close(blocked)
				<-end
			}
			return nil
		}), troupe.Options{Limits: []troupe.Limit{{Name: "all", AtOnce: 1000}}})
		for i := range 600 {
			_, err := client.New(mem.Client).PushClass(ctx, "C", []any{i})
			harness.OK(t, err)
		}
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 1}}})
		<-blocked
		if n := len(slotsOf(mem.Client, "all")); n < 2 {
			t.Errorf("%d jobs have slots while one runs: none has asked ahead", n)
		}
		k.Await("the others are given back", func() bool { return len(slotsOf(mem.Client, "all")) == 1 })
		close(end)
		k.Await("all done", func() bool { return k.Stats().Processed == 600 && k.Stats().Busy == 0 })
		k.Stop()
		harness.Equal(t, "slots left", len(slotsOf(mem.Client, "all")), 0)
	})
}

// slotsOf are who has a slot of a rule.
func slotsOf(rdb redis.UniversalClient, rule string) []string {
	return rdb.ZRange(ctx, keys.Slots("troupe:", rule), 0, -1).Val()
}

// A job that a stop puts back keeps its slot, for the process that takes it next.
func TestAStopKeepsTheSlotOfAJobForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var stopped atomic.Bool
		var mu sync.Mutex
		var order []string
		troupe.HandleClass(&r, "C", troupe.HandlerFunc(func(c context.Context, p *troupe.Payload) error {
			mu.Lock()
			order = append(order, p.JID())
			mu.Unlock()
			if !stopped.Load() {
				<-c.Done()
			}
			return c.Err()
		}), troupe.Options{Limits: []troupe.Limit{{Name: "one", AtOnce: 1}}})
		cfg := actors.Config{Redis: mem.Client, Registry: &r, Timeout: time.Second, Capsules: []actors.Capsule{{Concurrency: 3}}}
		k := testkit.Start(t, cfg)
		first, err := client.New(mem.Client).PushClass(ctx, "C", nil)
		harness.OK(t, err)
		k.Await("the first runs", func() bool { return k.Stats().Busy == 1 })
		second, err := client.New(mem.Client).PushClass(ctx, "C", nil)
		harness.OK(t, err)
		k.Await("the second is held", func() bool { return mem.Client.ZCard(ctx, "troupe:held:one").Val() == 1 })
		harness.Equal(t, "metrics", fmt.Sprint(k.Metrics().Limits), "[{one 1 1} { 0 0}]")
		k.Stop()
		harness.Equal(t, "slots", fmt.Sprint(slotsOf(mem.Client, "one")), fmt.Sprint([]string{first}))
		stopped.Store(true)
		k = testkit.Start(t, cfg)
		k.Await("both done", func() bool { return k.Stats().Processed == 2 })
		k.Stop()
		harness.Equal(t, "order", fmt.Sprint(order), fmt.Sprint([]string{first, first, second}))
	})
}

// The slot of a run that is given up is taken until it ends, and the job's next run waits for it.
func TestARunThatIsGivenUpKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		release := make(chan struct{})
		var runs, now, most atomic.Int64
		troupe.HandleClass(&r, "C", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
			most.Store(max(most.Load(), now.Add(1)))
			if runs.Add(1) == 1 {
				<-release
			}
			now.Add(-1)
			return nil
		}), troupe.Options{Timeout: time.Second, Limits: []troupe.Limit{{Name: "one", AtOnce: 1}}})
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 3, MaxUnresponsive: 2}}})
		_, err := client.New(mem.Client).PushClass(ctx, "C", nil)
		harness.OK(t, err)
		time.Sleep(5 * time.Minute) // the retry is due, and held
		harness.Equal(t, "held", mem.Client.ZCard(ctx, "troupe:held:one").Val(), int64(1))
		slots := slotsOf(mem.Client, "one")
		if len(slots) != 1 || !strings.Contains(slots[0], "~") {
			t.Errorf("slots %q", slots)
		}
		close(release)
		k.Await("the retry is done", func() bool { return runs.Load() == 2 && k.Stats().Busy == 0 })
		k.Stop()
		harness.Equal(t, "most at once", most.Load(), 1)
		harness.Equal(t, "slots", len(slotsOf(mem.Client, "one")), 0)
	})
}

// A slot that Redis has forgotten is taken again while its job runs.
func TestASlotThatIsForgottenIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var l keyed
		l.handle(&r, 5*time.Minute, troupe.Limit{Name: "one", AtOnce: 1})
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 3}}})
		jid, err := client.New(mem.Client).PushClass(ctx, "C", []any{"t0", 0})
		harness.OK(t, err)
		k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
		mem.Client.Del(ctx, "troupe:slots:one", "troupe:limits")
		k.Await("it has a slot", func() bool { return fmt.Sprint(slotsOf(mem.Client, "one")) == fmt.Sprint([]string{jid}) })
		harness.Equal(t, "the limit", mem.Client.HGet(ctx, "troupe:limits", "one").Val(), "1")
		time.Sleep(4 * time.Minute) // many times the life of a slot
		harness.Equal(t, "slots", fmt.Sprint(slotsOf(mem.Client, "one")), fmt.Sprint([]string{jid}))
		k.Await("done", func() bool { return k.Stats().Processed == 1 && len(slotsOf(mem.Client, "one")) == 0 })
		k.Stop()
	})
}

// What the key of a limit makes of a job is the job's own failure.
func TestAJobWhoseKeyCannotBeToldFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		limit := func(class string, l troupe.Limit) {
			troupe.HandleClass(&r, class, troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }), troupe.Options{Limits: []troupe.Limit{l}})
		}
		limit("Place", troupe.Limit{Name: "place", AtOnce: 1, By: "3"})
		limit("Error", troupe.Limit{Name: "error", AtOnce: 1, Key: func(*troupe.Payload) (string, error) { return "", errors.New("no such tenant") }})
		limit("Panic", troupe.Limit{Name: "panic", AtOnce: 1, Key: func(*troupe.Payload) (string, error) { panic("oh") }})
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r})
		for _, class := range []string{"Place", "Error", "Panic"} {
			_, err := client.New(mem.Client).PushClass(ctx, class, nil)
			harness.OK(t, err)
		}
		k.Await("all failed", func() bool { return mem.Client.ZCard(ctx, "retry").Val() == 3 })
		k.Stop()
		for _, want := range []string{`limit \"place\": By is \"3\", expected a place that the arguments have`, "no such tenant", "oh"} {
			if all := fmt.Sprint(mem.Client.ZRange(ctx, "retry", 0, -1).Val()); !strings.Contains(all, want) {
				t.Errorf("no %q in %s", want, all)
			}
		}
	})
}

// Limits that cannot be kept are faults of the configuration.
func TestLimitsThatCannotBeKept(t *testing.T) {
	rdb := testkit.NewMemory(t).Client
	registry := func(l ...troupe.Limit) *troupe.Registry {
		var r troupe.Registry
		troupe.HandleClass(&r, "C", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }), troupe.Options{Limits: l})
		return &r
	}
	one := troupe.Limit{Name: "one", AtOnce: 1}
	for want, cfg := range map[string]actors.Config{
		`limit "one" is there twice: "1" and "2", expected one of each name`: {Registry: registry(one), QueueLimits: map[string][]troupe.Limit{"q": {{Name: "one", AtOnce: 2}}}},
		`config: QueueLimits["q"][0]: limit "": Name is "", expected 1 to`:   {Registry: registry(), QueueLimits: map[string][]troupe.Limit{"q": {{AtOnce: 2}}}},
		`a fetcher of type *fetch.basic cannot keep limit "one"`:             {Registry: registry(one), Capsules: []actors.Capsule{{Fetch: fetch.NewBasic}}},
		`capsule "l": limit "one" is for jobs of Sidekiq's wire`:             {Registry: registry(one), Capsules: []actors.Capsule{{Name: "l", Wire: harness.Must(laravel.New(laravel.Options{}))(t)}}},
	} {
		cfg.Redis = rdb
		if _, err := actors.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}
