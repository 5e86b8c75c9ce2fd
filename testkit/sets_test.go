package testkit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

func TestRequireFindsAJobInItsSet(t *testing.T) {
	jobs := script.New(t)
	testkit.Virtual(t, actors.Config{Registry: jobs.Registry()}, func(t *testing.T, k *testkit.Kit) {
		due := time.Now().Add(time.Hour)
		later, failed, dead := k.Push(script.OK(), client.At(due)), k.Push(script.Fail()), k.Push(script.Step{Do: "kill"})
		is := func(do string) func(script.Step) bool { return func(s script.Step) bool { return s.Do == do } }
		if j := testkit.RequireScheduled(t, k.Redis, is("ok")); j.JID != later || !j.At.Equal(due) {
			t.Errorf("scheduled: %+v", j)
		}
		if j := testkit.RequireRetried(t, k.Redis, is("fail")); j.JID != failed || j.At.Before(time.Now()) || j.Payload.Failures() != 1 || j.Attempt != 2 {
			t.Errorf("retried: %+v", j)
		}
		if j := testkit.RequireDead[script.Step](t, k.Redis); j.JID != dead || j.At.After(time.Now()) || j.Queue != "default" {
			t.Errorf("dead: %+v", j)
		}
	}, testkit.Strict())
}

func TestRequireSaysWhatIsThereInstead(t *testing.T) {
	for name, c := range map[string]struct {
		push func(k *testkit.Kit)
		want []string
	}{
		"nothing": {func(*testkit.Kit) {}, []string{`expected one job of Scripted that fits in the set "dead", got 0`, "no job is in a queue"}},
		"others": {func(k *testkit.Kit) {
			k.PushClass("Other", nil)
			k.Push(script.OK(), client.In(time.Hour))
			k.Push(script.Fail())
		}, []string{`args ["ok"] at 2000-01-01T`, `args ["fail"] at`, "failed 1 times: scripted failure", "retry: 1 of other classes"}},
		"two": {func(k *testkit.Kit) {
			k.Push(script.Step{Do: "kill"})
			k.Push(script.Step{Do: "kill"})
			k.Await("both are dead", func() bool { return k.Redis.ZCard(context.Background(), "dead").Val() == 2 })
		}, []string{"got 2", `dead: `}},
	} {
		t.Run(name, func(t *testing.T) {
			jobs := script.New(t)
			testkit.Virtual(t, actors.Config{Registry: jobs.Registry()}, func(t *testing.T, k *testkit.Kit) {
				c.push(k)
				harness.Fails(t, func(tb testing.TB) { testkit.RequireDead[script.Step](tb, k.Redis) }, c.want...)
			})
		})
	}
}

func TestVirtualIsABubbleWithARedis(t *testing.T) {
	jobs := script.New(t)
	began := time.Now()
	testkit.Virtual(t, actors.Config{Registry: jobs.Registry()}, func(t *testing.T, k *testkit.Kit) {
		jid := k.Push(script.Slow(20 * time.Second))
		k.Await("the job", func() bool { return jobs.Ended(jid) })
	}, testkit.Strict())
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %s of real time", took)
	}
}

func TestAwaitIsTheSameInABubble(t *testing.T) {
	both(t, func(t *testing.T) {
		n := 0
		began := time.Now()
		testkit.Await(t, "ten", func() bool { n++; return n == 10 })
		if took := time.Since(began); n != 10 || took < 18*time.Millisecond {
			t.Errorf("%d tries in %s", n, took)
		}
	})
	t.Run("in vain", func(t *testing.T) {
		testkit.Virtual(t, actors.Config{}, func(t *testing.T, k *testkit.Kit) {
			never := func() bool { return false }
			harness.Fails(t, func(tb testing.TB) { testkit.Await(tb, "what never comes", never) }, "not within 1m0s: what never comes")
		})
	})
}

func TestAServerIsKilledAndPaused(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) *testkit.Server{
		"memory": func(t *testing.T) *testkit.Server { return testkit.NewMemory(t) },
		"process": func(t *testing.T) *testkit.Server {
			return testkit.NewServer(t, "--appendonly", "yes", "--appendfsync", "always")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			ctx := t.Context()
			harness.OK(t, s.Client.Set(ctx, "k", "v", 0).Err())
			s.Kill()
			if err := s.Client.Get(ctx, "k").Err(); err == nil {
				t.Error("a dead server has answered")
			}
			s.Restart()
			testkit.Await(t, "it is back", func() bool { return s.Client.Get(ctx, "k").Val() == "v" })
			s.Pause()
			answer := make(chan error, 1)
			go func() { answer <- s.Client.Set(ctx, "k", "w", 0).Err() }()
			select {
			case err := <-answer:
				t.Errorf("a paused server has answered: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			s.Resume()
			harness.Check(t, <-answer)
		})
	}
	t.Run("only in memory", func(t *testing.T) {
		harness.Fails(t, func(tb testing.TB) { testkit.NewMemory(tb).URL(0) }, "no URL")
		harness.Fails(t, func(tb testing.TB) { testkit.NewServer(tb).SetError("OOM") }, "use NewMemory")
		harness.Passes(t, func(tb testing.TB) {
			s := testkit.NewMemory(tb)
			s.SetError("OOM")
			if err := s.Client.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "OOM") {
				tb.Errorf("%v", err)
			}
		})
	})
}

func TestABubbleIsKnown(t *testing.T) {
	t.Run("real", func(t *testing.T) {
		if testkit.InBubble() {
			t.Error("real time, and a bubble")
		}
	})
	testkit.Virtual(t, actors.Config{}, func(t *testing.T, _ *testkit.Kit) {
		if !testkit.InBubble() {
			t.Error("a bubble that is not known")
		}
	})
}
