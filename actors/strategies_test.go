package actors_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// deciding gives every failure of an actor with this role the same directive.
func deciding(role string, d supervisor.Directive) *supervisor.Strategy {
	return supervisor.OneForOne(supervisor.Spec{Decide: func(f supervisor.Failure) supervisor.Directive {
		if f.Role == role {
			return d
		}
		return supervisor.Restart
	}})
}

func TestResumedProcessorGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, actors.Config{Registry: s.Registry(), Capsules: []actors.Capsule{
			{Concurrency: 2, Strategy: deciding("processor", supervisor.Resume)},
		}})
		push(k, 6, script.Panic())
		push(k, 4, script.OK())
		k.Await("all ten", func() bool { return k.Stats().Processed == 10 })
	})
}

// A strategy that never decides leaves its child suspended; the others go on, and
// nothing is given to the suspended one.
func TestStrategyThatDoesNothingHangsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, actors.Config{Registry: s.Registry(), Capsules: []actors.Capsule{
			{Concurrency: 2, Strategy: supervisor.FromProtoactor(idleStrategy{})},
		}})
		k.Crash("launcher/default/processor-1", errInjected)
		synctest.Wait()
		push(k, 10, script.OK())
		k.Await("all ten", func() bool { return k.Stats().Processed == 10 })
		began := time.Now()
		k.Stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop took %s", took)
		}
	})
}

type idleStrategy struct{}

func (idleStrategy) HandleFailure(*actor.ActorSystem, actor.Supervisor, *actor.PID, *actor.RestartStatistics, any, any) {
}

func TestStopEndsInTimeWhenAStrategyBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		release := make(chan struct{})
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Timeout: 2 * time.Second, Strategy: supervisor.FromProtoactor(blockingStrategy{release}),
			Capsules: []actors.Capsule{{Concurrency: 2}},
		})
		push(k, 1, script.Hang())
		k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
		k.Crash("launcher/poller", errInjected)
		synctest.Wait()
		began := time.Now()
		r := k.Stop()
		if took := time.Since(began); took > 2*time.Second+stopPromise {
			t.Errorf("the stop took %s", took)
		}
		if len(r.Requeued) != 1 || len(r.Left) != 0 {
			t.Errorf("drain report: %s", r)
		}
		close(release)
	})
}

type blockingStrategy struct{ release chan struct{} }

func (s blockingStrategy) HandleFailure(*actor.ActorSystem, actor.Supervisor, *actor.PID, *actor.RestartStatistics, any, any) {
	<-s.release
}

// What a capsule without actors has fetched goes back to its queue.
func TestStoppedActorsLeaveNoUnitHanging(t *testing.T) {
	for _, tc := range []struct {
		role, crash       string
		launcher, capsule *supervisor.Strategy
	}{
		{"manager", "launcher/default", deciding("manager", supervisor.Stop), nil},
		{"fetcher", "launcher/default/fetcher", nil, deciding("fetcher", supervisor.Stop)},
		{"processor", "launcher/default/processor-0", nil, deciding("processor", supervisor.Stop)},
	} {
		t.Run(tc.role, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := script.New(t)
				cfg := actors.Config{Registry: s.Registry(), Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 1}}}
				if tc.launcher != nil {
					cfg.Strategy = tc.launcher
				}
				if tc.capsule != nil {
					cfg.Capsules[0].Strategy = tc.capsule
				}
				k := testkit.Start(t, cfg)
				push(k, 50, script.Slow(10*time.Millisecond))
				k.Await("some", func() bool { return k.Stats().Processed > 5 })
				k.Crash(tc.crash, errInjected)
				k.Await("quiet and settled", func() bool {
					return inProgress(t, k.Redis) == 0 && k.Stats().Waiting == 0 && k.Stats().Busy == 0
				})
				done := int(k.Stats().Processed)
				if n := size(t, k.Redis, "queue:default"); n+done != 50 {
					t.Errorf("%d done and %d in the queue, want 50 in all", done, n)
				}
			})
		})
	}
}

// A third party's fetcher that panics loses no ack, and every actor that crashed
// of it runs again.
func TestPanickingFetcherLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		var takes, settles atomic.Int64
		var quiet atomic.Bool
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Logger: zerolog.Nop(),
			Capsules: []actors.Capsule{{Concurrency: 2, Fetch: func(e fetch.Env) (fetch.Fetcher, error) {
				f, err := fetch.NewReliable(e)
				return panickingFetcher{f, &takes, &settles, &quiet}, err
			}}},
		})
		push(k, 20, script.OK())
		push(k, 5, script.Fail())
		k.Await("all settled", func() bool {
			return k.Stats().Processed == 25 && inProgress(t, k.Redis) == 0 && size(t, k.Redis, "retry") == 5
		})
		runs := s.Runs()
		for jid, n := range runs {
			if n != 1 {
				t.Errorf("job %s ran %d times", jid, n)
			}
		}
		quiet.Store(true)
		time.Sleep(time.Minute) // the backoffs are over
		synctest.Wait()
		if k.Tree().Find("launcher/default").Restarts == 0 {
			t.Errorf("the panics have not restarted the manager:\n%s", k.Tree())
		}
		for _, n := range k.Tree() {
			if n.State != actors.StateRunning && n.State != actors.StateIdle && n.State != actors.StateBusy {
				t.Errorf("%s is %s: %s", n.Path, n.State, n.LastFailure)
			}
		}
	})
}

type panickingFetcher struct {
	fetch.Fetcher
	takes, settles *atomic.Int64
	quiet          *atomic.Bool // it panics no more
}

func (f panickingFetcher) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if len(acks) > 0 && f.takes.Add(1)%3 == 1 && !f.quiet.Load() {
		panic("a fetcher of a third party")
	}
	return f.Fetcher.Take(ctx, n, acks)
}

func (f panickingFetcher) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	if f.settles.Add(1) <= 12 && !f.quiet.Load() {
		panic("a fetcher of a third party")
	}
	return f.Fetcher.Settle(ctx, moves)
}

// A key of the wrong type holds up the jobs that need it, and nobody else.
func TestKeyOfTheWrongTypeAtRunTime(t *testing.T) {
	for name, factory := range fetchers {
		t.Run(name, func(t *testing.T) {
			s := script.New(t)
			rdb := testkit.Redis(t)
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: s.Registry(), Logger: zerolog.Nop(),
				Capsules: []actors.Capsule{{Concurrency: 2, Fetch: factory, Queues: fetch.Strict{"broken", "default"}}},
			})
			rdb.Set(ctx, "retry", "not a set", 0)
			rdb.Set(ctx, "queue:broken", "not a list", 0)
			push(k, 6, script.Fail())
			killed := push(k, 1, script.Step{Do: "kill"})[0]
			push(k, 20, script.OK())
			k.Await("the others", func() bool { return k.Stats().Processed == 27 && size(t, rdb, "dead") == 1 })
			if got := members(t, rdb, "dead"); len(got) != 1 || got[0] != killed {
				t.Errorf("dead holds %q", got)
			}
			rdb.Del(ctx, "retry", "queue:broken")
			k.Await("the retries", func() bool { return size(t, rdb, "retry") == 6 })
			ok := k.Push(script.OK(), client.Queue("broken"))
			k.Await("the mended queue", func() bool { return s.Runs()[ok] > 0 })
		})
	}
}

type unreadable struct{ inner error }

func (e unreadable) Error() string { return e.inner.Error() }

func TestErrorThatCannotBeReadIsAnOutcomeNotACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r troupe.Registry
		troupe.HandleClass(&r, "Scripted", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return unreadable{} }))
		var told atomic.Int64
		k := testkit.Start(t, actors.Config{
			Registry: &r, Capsules: []actors.Capsule{{Concurrency: 2}},
			ErrorHandlers: []actors.ErrorHandler{func(context.Context, error, actors.ErrorContext) { told.Add(1) }},
		})
		push(k, 60, script.Step{Do: "x"})
		k.Await("all stored", func() bool { return size(t, k.Redis, "retry") == 60 && told.Load() == 60 })
		for _, n := range k.Tree() {
			if n.Restarts > 0 {
				t.Errorf("%s restarted", n.Path)
			}
		}
	})
}

func TestStopWaitsForErrorAndDeathHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		var begun, ended atomic.Int64
		handler := func() {
			begun.Add(1)
			time.Sleep(5 * time.Second)
			ended.Add(1)
		}
		k := testkit.Start(t, actors.Config{
			Registry:      s.Registry(),
			ErrorHandlers: []actors.ErrorHandler{func(context.Context, error, actors.ErrorContext) { handler() }},
			DeathHandlers: []actors.DeathHandler{func(context.Context, *troupe.Payload, error) { handler() }},
		})
		push(k, 1, script.Step{Do: "kill"})
		k.Await("the first handler", func() bool { return begun.Load() == 1 })
		k.Stop()
		harness.Equal(t, "of 2 handlers had ended when the stop was over", ended.Load(), 2)
	})
}
