package testkit_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/testkit"
)

// TestExamples runs the examples: they take a *testing.T.
func TestExamples(tt *testing.T) {
	for name, example := range map[string]func(){
		"Perform": ExamplePerform, "PerformClass": ExamplePerformClass, "Fake": ExampleFake, "Inline": ExampleInline, "RequireResult": ExampleRequireResult, "RequireBatch": ExampleRequireBatch, "RequireBatchState": ExampleRequireBatchState, "PerformMany": ExamplePerformMany, "Record": ExampleRecord, "Pushes": ExamplePushes,
		"RequireOutboxed": ExampleRequireOutboxed, "Start": ExampleStart, "Virtual": ExampleVirtual, "RequireRetried": ExampleRequireRetried, "Rests": ExampleRests, "Kit_Skip": ExampleKit_Skip,
		"Kit_Expect": ExampleKit_Expect, "Kit_Hold": ExampleKit_Hold, "Strict": ExampleStrict, "NewMemory": ExampleNewMemory, "NewServer": ExampleNewServer,
	} {
		tt.Run(name, func(tt *testing.T) {
			t = tt
			example()
		})
	}
}

// registry has the handler of Greeting.
func registry() *troupe.Registry {
	var jobs troupe.Registry
	troupe.Handle(&jobs, greet)
	return &jobs
}

// A handler of a class without a Go type, or with its middleware.
func ExamplePerformClass() { //nolint:testableexamples // it takes a *testing.T
	err := testkit.PerformClass(t, t.Context(), registry(), "Greeting", []any{map[string]any{"Name": ""}})
	if outcome, ok := errors.AsType[*troupe.OutcomeError](err); !ok || !outcome.Kill {
		t.Errorf("nobody was greeted: %v", err)
	}
}

// Each push runs its job before it returns.
func ExampleInline() { //nolint:testableexamples // it takes a *testing.T
	pushes := testkit.Inline(t, registry(), nil)
	if _, err := pushes.Client.Push(t.Context(), Greeting{Name: "Ada"}); err != nil {
		t.Error(err)
	}
}

// What a job returns that was run from what is pushed.
func ExampleRequireResult() { //nolint:testableexamples // it takes a *testing.T
	var jobs troupe.Registry
	troupe.HandleResult(&jobs, func(_ context.Context, job *troupe.Job[Greeting]) (string, error) {
		return "Hello " + job.Args.Name, nil
	})
	pushes := testkit.Inline(t, &jobs, nil)
	jid, err := pushes.Client.Push(t.Context(), Greeting{Name: "Ada"})
	if text := testkit.RequireResult[string](t, pushes, jid); err != nil || text != "Hello Ada" {
		t.Error(text, err)
	}
}

// greetings pushes two jobs that count together.
func greetings(ctx context.Context, c *client.Client) (id string, err error) {
	return c.Batch(ctx, client.BatchOptions{Name: "greetings", Success: client.Job(Greeting{Name: "all"})}, func(b *client.Batch) error {
		_, err := client.PushBulk(ctx, b.Client, slices.Values([]Greeting{{Name: "Ada"}, {Name: "Alan"}}))
		return err
	})
}

// What a program pushes into a batch; when its jobs are drained, its callback is pushed.
func ExampleRequireBatch() { //nolint:testableexamples // it takes a *testing.T
	pushes := testkit.Fake(t)
	if _, err := greetings(t.Context(), pushes.Client); err != nil {
		t.Fatal(err)
	}
	if b := testkit.RequireBatch(t, pushes, "greetings"); b.Total != 2 || !b.Closed {
		t.Errorf("%+v", b)
	}
	if _, err := pushes.Drain(t.Context(), registry()); err != nil {
		t.Fatal(err)
	}
	testkit.RequirePushedMany(t, pushes, Greeting{Name: "Ada"}, Greeting{Name: "Alan"}, Greeting{Name: "all"})
}

// A batch that a whole daemon works off.
func ExampleRequireBatchState() { //nolint:testableexamples // it takes a *testing.T
	testkit.Virtual(t, actors.Config{Registry: registry()}, func(t *testing.T, k *testkit.Kit) {
		id, err := greetings(t.Context(), k.Client)
		if err != nil {
			t.Fatal(err)
		}
		testkit.RequireBatchState(t, k.Redis, id, inspect.BatchSucceeded)
	})
}

// A handler of many jobs, in one call.
func ExamplePerformMany() { //nolint:testableexamples // it takes a *testing.T
	greetAll := func(_ context.Context, jobs []*troupe.Job[Greeting]) []error {
		errs := make([]error, len(jobs))
		for i, job := range jobs {
			if job.Args.Name == "" {
				errs[i] = troupe.Kill(errors.New("nobody to greet"))
			}
		}
		return errs
	}
	errs := testkit.PerformMany(t, t.Context(), greetAll, []Greeting{{Name: "Ada"}, {}})
	if errs[0] != nil || errs[1] == nil {
		t.Error(errs)
	}
}

// What passes through a real client.
func ExampleRecord() { //nolint:testableexamples // it takes a *testing.T
	k := testkit.Start(t, actors.Config{Registry: registry()})
	pushes := testkit.Record(t, k.Redis)
	k.PushClass("Greeting", []any{map[string]any{"Name": "Ada"}})
	testkit.RequirePushedMany(t, pushes, Greeting{Name: "Ada"})
}

// What was pushed, and to run it step by step.
func ExamplePushes() { //nolint:testableexamples // it takes a *testing.T
	pushes, ctx := testkit.Fake(t), t.Context()
	for _, name := range []string{"Ada", "Bea", "Cleo"} {
		if _, err := pushes.Client.Push(ctx, Greeting{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.RequireNotPushed(t, pushes, func(g Greeting) bool { return g.Name == "" })
	if ran, err := pushes.DrainOne(ctx, registry()); !ran || err != nil || len(pushes.Jobs()) != 2 {
		t.Error(ran, err)
	}
	if n, err := pushes.DrainQueue(ctx, "default", registry()); n != 2 || err != nil {
		t.Error(n, err)
	}
	if n, err := pushes.Drain(ctx, registry()); n != 0 || err != nil || len(pushes.All()) != 3 {
		t.Error(n, err)
	}
	pushes.Clear()
}

// A transaction has written a row and a job.
func ExampleRequireOutboxed() { //nolint:testableexamples // it takes a *testing.T
	db, err := sql.Open("outboxed", "") // SQLite, say, with the tables of outbox.Migrate
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	job := testkit.RequireOutboxed(t, db, func(g Greeting) bool { return g.Name == "Ada" })
	t.Log(job.Queue, job.At)
}

// Where a job is in Redis: to be retried, scheduled, dead.
func ExampleRequireRetried() { //nolint:testableexamples // it takes a *testing.T
	var jobs troupe.Registry
	troupe.Handle(&jobs, func(_ context.Context, job *troupe.Job[Greeting]) error {
		if job.Args.Name == "" {
			return troupe.Kill(errors.New("nobody to greet"))
		}
		return errors.New("not at home")
	})
	k := testkit.Start(t, actors.Config{Registry: &jobs})
	k.Push(Greeting{Name: "Ada"})
	k.Push(Greeting{})
	k.Push(Greeting{Name: "Bea"}, client.In(time.Hour))
	t.Log(testkit.RequireRetried[Greeting](t, k.Redis).At, testkit.RequireDead[Greeting](t, k.Redis).At, testkit.RequireScheduled[Greeting](t, k.Redis).At)
}

// A handler has its limit rest: alone, and in a daemon.
func ExampleRests() { //nolint:testableexamples // it takes a *testing.T
	var jobs troupe.Registry
	busy := troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error { return troupe.Rest(ctx, "api", time.Hour) })
	troupe.HandleClass(&jobs, "Call", busy, troupe.Options{Limits: []troupe.Limit{{Name: "api", Breaker: &troupe.Breaker{}}}})
	ctx, told := testkit.Rests(t.Context())
	if err := testkit.PerformClass(t, ctx, &jobs, "Call", nil); err != nil || told()["api"] != time.Hour {
		t.Errorf("it rests for %v, %v", told(), err)
	}
	k := testkit.Start(t, actors.Config{Registry: &jobs})
	k.PushClass("Call", nil)
	t.Log(testkit.RequireResting(t, k.Redis, "api"))
}

// A day of virtual time, with all that is due in it.
func ExampleKit_Skip() { //nolint:testableexamples // it takes a *testing.T
	cfg := actors.Config{Registry: registry(), Periodic: []troupe.Periodic{{Name: "greet", Cron: "every 1h", Args: Greeting{Name: "Ada"}}}}
	testkit.Virtual(t, cfg, func(t *testing.T, k *testkit.Kit) {
		k.Push(Greeting{Name: "Bea"}, client.In(20*time.Hour))
		k.Skip(24 * time.Hour)
		t.Log(k.Stats().Processed, "jobs")
		t.Log(k.Tick("greet"), "was pushed by the next tick")
	})
}

// Events are awaited, by what they are about, how many, and how soon.
func ExampleKit_Expect() { //nolint:testableexamples // it takes a *testing.T
	boom := errors.New("boom")
	testkit.Virtual(t, actors.Config{Registry: registry()}, func(_ *testing.T, k *testkit.Kit) {
		k.Expect(testkit.Events[event.JobDone]().Of("Greeting").Times(2).Within(time.Minute), func() {
			k.Push(Greeting{Name: "Ada"})
			k.Push(Greeting{Name: "Bea"})
		})
		k.Expect(testkit.Crashes("launcher/poller").Because(boom).Saying("boom").AtLeast(1), func() { k.Crash("launcher/poller", boom) })
		k.Await("all actors run", k.Healthy)
		k.CrashWhen("launcher/default/fetcher", testkit.Events[event.JobStarted](), boom) // once
		k.Expect(testkit.Events[event.ActorRestarted]().At("launcher/default/*"), func() { k.Push(Greeting{Name: "Cleo"}) })
	})
}

// An actor that gets no messages, and one that takes none: the daemon does without, for a while.
func ExampleKit_Hold() { //nolint:testableexamples // it takes a *testing.T
	testkit.Virtual(t, actors.Config{Registry: registry()}, func(_ *testing.T, k *testkit.Kit) {
		k.Hold("launcher/heartbeat")
		k.Suspend("launcher/poller")
		k.Push(Greeting{Name: "Ada"})
		k.Await("it is done", func() bool { return k.Stats().Processed == 1 && k.Settled() })
		k.Resume("launcher/poller")
		k.Release("launcher/heartbeat")
	})
}

// A strict test fails on what it did not expect: a crash, a lost job, a goroutine left behind.
func ExampleStrict() { //nolint:testableexamples // it takes a *testing.T
	testkit.Virtual(t, actors.Config{Registry: registry()}, func(t *testing.T, k *testkit.Kit) {
		k.Allow(testkit.Crashes("launcher/default/processor-*")) // it may crash, or not
		k.Push(Greeting{Name: "Ada"})
		k.Await("it is done", func() bool { return k.Stats().Processed == 1 })
		if report := k.Stop(); len(report.Lost)+len(report.Left) > 0 {
			t.Error(report)
		}
	}, testkit.Strict())
}

// A Redis in memory, which has faults when the test wants.
func ExampleNewMemory() { //nolint:testableexamples // it takes a *testing.T
	server := testkit.NewMemory(t)
	server.SetTime(time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC))
	server.SetError("OOM command not allowed when used memory > 'maxmemory'.")
	if _, err := client.New(server.Client).Push(t.Context(), Greeting{Name: "Ada"}); err == nil {
		t.Error("pushed into a Redis that is full")
	}
	server.SetError("")
	t.Log(server.Options().DB)
}

// A redis-server of the test's own, which is stopped, killed and started again while a daemon runs.
func ExampleNewServer() { //nolint:testableexamples // it takes a *testing.T
	server := testkit.NewServer(t, "--appendonly", "yes", "--appendfsync", "always")
	k := testkit.Start(t, actors.Config{Redis: server.Client, Registry: registry()})
	server.Pause()
	server.Resume()
	server.Kill()
	server.Restart()
	k.Await("the job is pushed again", func() bool {
		_, err := client.New(server.Client).Push(t.Context(), Greeting{Name: "Ada"})
		return err == nil
	})
	k.Await("it is done", func() bool { return k.Stats().Processed > 0 })
	t.Log(server.URL(0), "is for other processes")
}
