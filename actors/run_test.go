package actors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// fetchers are the two strategies; what does not speak of crashes holds for both.
var fetchers = map[string]fetch.Factory{"reliable": fetch.NewReliable, "basic": fetch.NewBasic}

func TestJobsRunOnceAndAreSettled(t *testing.T) {
	for name, factory := range fetchers {
		t.Run(name, func(t *testing.T) {
			s := script.New(t)
			rdb := testkit.Redis(t)
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: s.Registry(),
				Capsules: []actors.Capsule{{Concurrency: 4, Fetch: factory}},
			})
			jids := push(k, 300, script.OK())
			k.Await("all processed", func() bool { return k.Stats().Processed == 300 })
			k.Await("all settled", func() bool { return inProgress(t, rdb) == 0 })
			runs, most := s.Runs(), s.Most()
			for _, jid := range jids {
				if runs[jid] != 1 {
					t.Errorf("job %s ran %d times", jid, runs[jid])
				}
			}
			if most > 4 {
				t.Errorf("%d jobs ran at once, concurrency is 4", most)
			}
			r := k.Stop()
			if len(r.Requeued)+len(r.Left)+len(r.Abandoned) != 0 {
				t.Errorf("drain report: %s", r)
			}
			for _, key := range []string{"troupe:places", "processes", "retry", "dead", "queue:default"} {
				if n := size(t, rdb, key); n != 0 {
					t.Errorf("%s still has %d members", key, n)
				}
			}
			harness.Equal(t, "stat:processed is", rdb.Get(ctx, "stat:processed").Val(), "300")
		})
	}
}

func TestOutcomes(t *testing.T) {
	s := script.New(t)
	rdb := testkit.Redis(t)
	var mu sync.Mutex
	var failures, deaths []string
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: s.Registry(),
		Capsules: []actors.Capsule{{Concurrency: 2}},
		ErrorHandlers: []actors.ErrorHandler{
			func(context.Context, error, actors.ErrorContext) { panic("a bad error handler") },
			func(_ context.Context, err error, in actors.ErrorContext) {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, fmt.Sprint(err))
			},
		},
		DeathHandlers: []actors.DeathHandler{func(_ context.Context, p *troupe.Payload, err error) {
			mu.Lock()
			defer mu.Unlock()
			deaths = append(deaths, p.JID())
		}},
	})
	failing := push(k, 1, script.Fail())[0]
	killed := push(k, 1, script.Step{Do: "kill"})[0]
	discarded := push(k, 1, script.Step{Do: "discard"})[0]
	last := k.Push(script.Fail(), client.Retry(0))
	never := k.Push(script.Fail(), client.Never())
	unknown := k.PushClass("NoSuchClass", []any{1})
	for _, raw := range []string{"{not json", "", "[1]", `"x"`, "5", "null", "\ufeff{}", `{"class":"Scripted","args":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`} {
		harness.OK(t, rdb.LPush(ctx, "queue:default", raw).Err())
	}
	k.Await("all settled", func() bool {
		return size(t, rdb, "queue:default") == 0 && inProgress(t, rdb) == 0 && k.Stats().Processed == 6 && size(t, rdb, "dead") == 10
	})
	k.Stop()
	harness.EqualList(t, "retry holds", members(t, rdb, "retry"), sorted(failing, unknown))
	dead := members(t, rdb, "dead")
	if !slices.Contains(dead, killed) || !slices.Contains(dead, last) || len(dead) != 10 {
		t.Errorf("dead holds %q", dead)
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(deaths)
	harness.EqualList(t, "death handlers were told of", deaths, sorted(killed, discarded, last, never))
	if len(failures) != 14 {
		t.Errorf("error handlers were told of %d failures, want 14: %q", len(failures), failures)
	}
	if p, f := rdb.Get(ctx, "stat:processed").Val(), rdb.Get(ctx, "stat:failed").Val(); p != "6" || f != "6" {
		t.Errorf("processed %s, failed %s, want 6 and 6: what is no job is not counted", p, f)
	}
}

// members are the jids of a set, or the raw text of what is no job.
func members(t *testing.T, rdb redis.UniversalClient, key string) []string {
	t.Helper()
	raws := harness.Must(rdb.ZRange(ctx, key, 0, -1).Result())(t)
	var out []string
	for _, raw := range raws {
		if p, err := troupe.ParsePayload([]byte(raw)); err == nil {
			out = append(out, p.JID())
		} else {
			out = append(out, raw)
		}
	}
	slices.Sort(out)
	return out
}

func sorted(s ...string) []string { slices.Sort(s); return s }

func TestMiddlewareWrapsAndItsArgsDoNotReachTheRetry(t *testing.T) {
	s := script.New(t)
	var mu sync.Mutex
	var order []string
	note := func(name string) troupe.Middleware {
		return func(next troupe.Handler) troupe.Handler {
			return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				if info, ok := troupe.JobInfoFrom(ctx); !ok || info.Capsule != "default" || info.JID != p.JID() {
					t.Errorf("job info in %s: %+v", name, info)
				}
				if name == "inner" {
					p.Set("args", []byte(`["fail"]`))
				}
				return next.Perform(ctx, p)
			})
		}
	}
	rdb := testkit.Redis(t)
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: s.Registry(), Middleware: []troupe.Middleware{note("outer")},
		Capsules: []actors.Capsule{{Concurrency: 1, Middleware: []troupe.Middleware{note("inner")}}},
	})
	push(k, 1, script.OK())
	k.Await("the retry", func() bool { return size(t, rdb, "retry") == 1 })
	mu.Lock()
	defer mu.Unlock()
	harness.EqualList(t, "order", order, []string{"outer", "inner"})
	raw := rdb.ZRange(ctx, "retry", 0, -1).Val()[0]
	p, err := troupe.ParsePayload([]byte(raw))
	if err != nil || string(p.Args()) != `["ok"]` {
		t.Errorf("stored args %s, %v: want the original ones", p.Args(), err)
	}
}

func TestScheduledJobStartsOnTime(t *testing.T) {
	s := script.New(t)
	k := testkit.Start(t, actors.Config{Redis: testkit.Redis(t), Registry: s.Registry()})
	k.Await("an idle tree", func() bool { return len(k.Tree()) > 10 })
	due := time.Now().Add(500 * time.Millisecond)
	jid := k.Push(script.OK(), client.At(due))
	k.Await("the job", func() bool { return s.Runs()[jid] > 0 })
	if late := time.Since(due); late < 0 {
		t.Errorf("started %s early", -late)
	}
}

func TestLifecycleEventsFireInOrder(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note := func(name string) func(context.Context) {
		return func(context.Context) {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
	}
	k := testkit.Start(t, actors.Config{
		Redis: testkit.Redis(t), HeartbeatInterval: 10 * time.Millisecond,
		On: actors.Events{
			Startup:   []func(context.Context) error{func(context.Context) error { note("startup")(ctx); return nil }},
			Heartbeat: []func(context.Context){note("heartbeat")},
			Beat:      []func(context.Context){note("beat")},
			Quiet:     []func(context.Context){note("quiet 1"), note("quiet 2"), func(context.Context) { panic("bad callback") }},
			Shutdown:  []func(context.Context){note("shutdown 1"), note("shutdown 2")},
			Exit:      []func(context.Context){note("exit 1"), note("exit 2")},
		},
	})
	k.Await("a beat", func() bool { mu.Lock(); defer mu.Unlock(); return len(order) == 3 })
	k.Quiet()
	k.Stop()
	mu.Lock()
	defer mu.Unlock()
	want := []string{"startup", "heartbeat", "beat", "quiet 2", "quiet 1", "shutdown 2", "shutdown 1", "exit 2", "exit 1"}
	if !slices.Equal(order, want) {
		t.Errorf("events %q\nwant   %q", order, want)
	}
}

func TestStartupErrorEndsTheStart(t *testing.T) {
	boom := errors.New("boom")
	for name, f := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return boom },
		"panic": func(context.Context) error { panic(boom) },
	} {
		t.Run(name, func(t *testing.T) {
			d, err := actors.New(actors.Config{
				Redis: testkit.Redis(t), Registry: new(troupe.Registry),
				On: actors.Events{Startup: []func(context.Context) error{f}},
			})
			harness.OK(t, err)
			harness.ErrorHas(t, "start", d.Start(ctx), "boom")
			<-d.Done()
		})
	}
}

func TestBadConfigurationNamesEveryFault(t *testing.T) {
	_, err := actors.New(actors.Config{
		Timeout: -1, Lease: time.Millisecond,
		Capsules: []actors.Capsule{{Name: "a/b"}, {Name: "x", Concurrency: -2}, {Name: "x"}, {Name: "poller", Queues: fetch.Strict{}}},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"Redis", "Registry", "Timeout", "Lease", "Capsules[0].Name", "Capsules[1].Concurrency", "Capsules[2].Name", "Capsules[3].Name", "Capsules[3].Queues"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s:\n%v", want, err)
		}
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer func() { _ = ring.Close() }()
	if _, err := actors.New(actors.Config{Redis: ring, Registry: new(troupe.Registry)}); err == nil || !strings.Contains(err.Error(), "redis.NewClient") {
		t.Errorf("a ring: %v, want a refusal that says how", err)
	}
}

// A daemon of one capsule needs no Capsules.
func TestOneCapsuleNeedsNoCapsules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, actors.Config{
			Redis: testkit.NewMemory(t).Client, Registry: s.Registry(), Concurrency: 3, Queues: actors.Weighted{"default": 2, "other": 1},
		})
		processors := 0
		for _, n := range k.Tree() {
			if n.Role == "processor" {
				processors++
			}
		}
		push(k, 1, script.OK())
		k.Await("it is done", func() bool { return k.Stats().Processed == 1 })
		harness.Equal(t, "processors", processors, 3)
	})
	err := actors.Config{
		Concurrency: 3, Queues: actors.Strict{"a"}, Capsules: []actors.Capsule{{}},
	}.Validate()
	for _, want := range []string{"config: Concurrency is 3, expected 0", "config: Queues is [a], expected nil"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := (actors.Config{Concurrency: -1, Queues: actors.Weighted{}}).Validate(); err == nil ||
		!strings.Contains(err.Error(), "config: Concurrency is -1, expected 1 to") || !strings.Contains(err.Error(), "config: Queues is empty") {
		t.Errorf("got %v", err)
	}
}
