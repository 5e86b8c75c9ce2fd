package actors_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/actors/internal/strategy"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// strategyFunc is a full strategy of a user's.
type strategyFunc func(sup actor.Supervisor, child *actor.PID, reason any)

func (f strategyFunc) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	f(sup, child, reason)
}

// told collects the events that what picks.
type told struct {
	mu     sync.Mutex
	events []string
}

func (o *told) subscribe(what func(event.Event) string) func(event.Event) {
	return func(e event.Event) {
		if s := what(e); s != "" {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.events = append(o.events, s)
		}
	}
}

func (o *told) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events)
}

// aboutStrategies names what is told about strategies.
func aboutStrategies(e event.Event) string {
	switch e := e.(type) {
	case event.StrategyBlocked:
		return fmt.Sprintf("%s (%s) waits for %s", e.Path, e.Role, e.Strategy)
	case event.StrategyReturned:
		return fmt.Sprintf("%s has waited %s for %s", e.Path, e.After, e.Strategy)
	case event.StrategyOverruled:
		return fmt.Sprintf("%s overruled %s: %v", e.Path, e.Strategy, e.Err)
	}
	return ""
}

// atEveryLevel are the places of a strategy, with a child that it decides about.
var atEveryLevel = []struct{ supervisor, role, child string }{
	{"launcher", "launcher", "launcher/rescuer"},
	{"launcher/default", "manager", "launcher/default/processor-1"},
}

// made is a strategy, ours or one of the library's kind, as a Config takes it.
func made(s any) *supervisor.Strategy {
	if ours, ok := s.(*supervisor.Strategy); ok {
		return ours
	}
	return supervisor.FromProtoactor(s.(actor.SupervisorStrategy))
}

func withStrategy(cfg actors.Config, path string, given any) actors.Config {
	s := made(given)
	if path == "launcher" {
		cfg.Strategy = s
	} else {
		cfg.Capsules[0].Strategy = s
	}
	return cfg
}

func TestBlockedStrategyIsReportedUntilItReturns(t *testing.T) {
	for _, at := range atEveryLevel {
		t.Run(at.role, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var events told
				var log harness.Buffer
				release := make(chan struct{})
				k := testkit.Start(t, withStrategy(actors.Config{
					Logger: zerolog.New(&log), Subscribers: []func(event.Event){events.subscribe(aboutStrategies)},
					Capsules: []actors.Capsule{{Concurrency: 2}},
				}, at.supervisor, strategyFunc(func(sup actor.Supervisor, child *actor.PID, _ any) {
					<-release
					sup.RestartChildren(child)
				})))
				note := func() string {
					n := k.Tree().Find(at.supervisor)
					return n.Note
				}
				k.Crash(at.child, errInjected)
				time.Sleep(999 * time.Millisecond)
				synctest.Wait()
				if got := events.all(); len(got) > 0 || note() != "" {
					t.Errorf("after less than a second: %q, %q", got, note())
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				blocked := fmt.Sprintf("%s (%s) waits for actors_test.strategyFunc", at.supervisor, at.role)
				harness.EqualList(t, "told", events.all(), []string{blocked})
				if want := "(actors_test.strategyFunc has not decided for 1m1s)"; note() != want || !strings.Contains(k.Tree().String(), want) {
					t.Errorf("note %q, want %q in\n%s", note(), want, k.Tree())
				}
				harness.Equal(t, "logged times", log.Count("a strategy does not decide"), 1)
				close(release)
				k.Await("the restart", func() bool { return k.Tree().Find(at.child).Restarts == 1 })
				synctest.Wait()
				if got := events.all(); len(got) != 2 || !strings.HasPrefix(got[1], at.supervisor+" has waited 1m0.999s") {
					t.Errorf("told: %q", got)
				}
				if n := log.Count("a strategy that was late has decided"); n != 1 || note() != "" {
					t.Errorf("logged %d times, note %q", n, note())
				}
			})
		})
	}
}

// Whatever user code does: nothing is fetched after quiet, and a stop with a job
// that is unresponsive ends within the 33 s that the README tells platforms to wait.
func TestQuietAndStopEndInTimeWhenAStrategyBlocks(t *testing.T) {
	for _, at := range atEveryLevel {
		t.Run(at.role, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := script.New(t)
				release := make(chan struct{})
				k := testkit.Start(t, withStrategy(actors.Config{
					Registry: s.Registry(), Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 3}},
					On:          actors.Events{Exit: []func(context.Context){func(context.Context) { <-release }}},
					Subscribers: []func(event.Event){func(event.Event) { <-release }},
				}, at.supervisor, strategyFunc(func(actor.Supervisor, *actor.PID, any) { <-release })))
				push(k, 1, script.Hang())
				push(k, 1, script.Step{Do: "unresponsive"})
				k.Await("both run", func() bool { return k.Stats().Busy == 2 })
				k.Crash(at.child, errInjected)
				time.Sleep(5 * time.Second)
				k.Quiet()
				synctest.Wait()
				push(k, 3, script.OK())
				time.Sleep(time.Minute)
				if n := size(t, k.Redis, "queue:default"); n != 3 || k.Stats().Busy != 2 {
					t.Errorf("after quiet: %d jobs left in the queue, %d run", n, k.Stats().Busy)
				}
				began := time.Now()
				r := k.Stop()
				if took := time.Since(began); took < 25*time.Second || took > 33*time.Second {
					t.Errorf("the stop took %s", took)
				}
				if len(r.Requeued) != 2 || len(r.Left)+len(r.Lost) != 0 || len(r.Abandoned) != 1 || size(t, k.Redis, "queue:default") != 5 {
					t.Errorf("drain report: %s", r)
				}
				close(release)
			})
		})
	}
}

// With nothing to wait for, a strategy that blocks costs a stop the second that
// its actors are given.
func TestAnIdleStopIsShortWhenAStrategyBlocks(t *testing.T) {
	for _, at := range atEveryLevel {
		t.Run(at.role, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				k := testkit.Start(t, withStrategy(actors.Config{Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 2}}},
					at.supervisor, strategyFunc(func(actor.Supervisor, *actor.PID, any) { <-release })))
				k.Crash(at.child, errInjected)
				time.Sleep(5 * time.Second)
				began := time.Now()
				k.Stop()
				if took := time.Since(began); took > 1100*time.Millisecond {
					t.Errorf("the stop took %s", took)
				}
				close(release)
			})
		})
	}
}

// A strategy that panics, or ends its goroutine, is overruled by the default,
// budget included: the child is restarted, and too many failures escalate.
func TestStrategyThatFailsIsOverruled(t *testing.T) {
	for name, fail := range map[string]func(){
		"panic":  func() { panic("a strategy") },
		"goexit": runtime.Goexit,
	} {
		for _, at := range atEveryLevel {
			t.Run(name+" "+at.role, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := script.New(t)
					var events told
					var log harness.Buffer
					k := testkit.Start(t, withStrategy(actors.Config{
						Registry: s.Registry(), Logger: zerolog.New(&log),
						Subscribers: []func(event.Event){events.subscribe(aboutStrategies)},
						Capsules:    []actors.Capsule{{Concurrency: 2}},
					}, at.supervisor, strategyFunc(func(actor.Supervisor, *actor.PID, any) { fail() })))
					k.Crash(at.child, errInjected)
					k.Await("the restart", func() bool { return k.Tree().Find(at.child).Restarts == 1 })
					synctest.Wait()
					got := events.all()
					if len(got) != 1 || !strings.HasPrefix(got[0], at.supervisor+" overruled actors_test.strategyFunc: ") {
						t.Errorf("told: %q", got)
					}
					if n := log.Count("a strategy was overruled by the default"); n != 1 {
						t.Errorf("logged %d times:\n%s", n, log.String())
					}
					push(k, 10, script.OK())
					k.Await("the jobs", func() bool { return k.Stats().Processed == 10 })
					for i := 0; k.Tree().Find(at.supervisor).Restarts == 0 && k.Err() == nil; i++ {
						if i > 1000 {
							t.Fatalf("never gave up\n%s", k.Tree())
						}
						for _, n := range k.Tree() {
							if parent := n.Path[:max(0, strings.LastIndexByte(n.Path, '/'))]; parent == at.supervisor && n.State != actors.StateRestarting {
								_ = k.Daemon.Faults().Crash(n.Path, errInjected)
							}
						}
						time.Sleep(time.Second)
						synctest.Wait()
					}
				})
			})
		}
	}
}

// What a strategy has done before it panics stands.
func TestStrategyThatFailsAfterItHasDecidedIsNotOverruled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testkit.Start(t, actors.Config{Logger: zerolog.Nop(), Capsules: []actors.Capsule{{
			Concurrency: 2, Strategy: made(strategyFunc(func(sup actor.Supervisor, child *actor.PID, _ any) {
				sup.ResumeChildren(child)
				panic("too late")
			})),
		}}})
		k.Crash("launcher/default/processor-1", errInjected)
		time.Sleep(time.Minute)
		if n := k.Tree().Find("launcher/default/processor-1"); n.State != actors.StateIdle || n.Restarts != 0 || n.LastFailure == "" {
			t.Errorf("%+v", n)
		}
	})
}

type badReset struct{ *strategy.Strategy }

func (badReset) Reset() { panic("reset") }

func TestPanicInResetHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events told
		k := testkit.Start(t, actors.Config{
			Logger: zerolog.Nop(), Subscribers: []func(event.Event){events.subscribe(aboutStrategies)},
			Strategy: made(badReset{strategy.Of(supervisor.Default())}), Capsules: []actors.Capsule{{Concurrency: 2}},
		})
		k.Crash("launcher", errInjected)
		k.Await("the restart", func() bool { return k.Tree().Find("launcher/default/processor-1").Restarts == 1 })
		synctest.Wait()
		if got := events.all(); len(got) != 2 || got[0] != "launcher overruled actors_test.badReset: panic: reset" {
			t.Errorf("told: %q", got)
		}
	})
}

// No crash is silent, whoever decides; and none is told of twice.
func TestEveryCrashIsLoggedOnceWithWhatWasDecided(t *testing.T) {
	for name, tc := range map[string]struct {
		strategy  any
		directive string
	}{
		"ours":            {supervisor.Default(), "restart"},
		"the library's":   {actor.NewOneForOneStrategy(3, time.Minute, actor.DefaultDecider), "restart"},
		"one that stops":  {strategyFunc(func(sup actor.Supervisor, child *actor.PID, _ any) { sup.StopChildren(child) }), "stop"},
		"one that waits":  {strategyFunc(func(actor.Supervisor, *actor.PID, any) {}), "none"},
		"one that panics": {strategyFunc(func(actor.Supervisor, *actor.PID, any) { panic("a strategy") }), "restart"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log harness.Buffer
				k := testkit.Start(t, actors.Config{Logger: zerolog.New(&log), Capsules: []actors.Capsule{{Concurrency: 2, Strategy: made(tc.strategy)}}})
				k.Crash("launcher/default/processor-1", errInjected)
				time.Sleep(time.Second)
				synctest.Wait()
				line := fmt.Sprintf(`"actor":"launcher/default/processor-1","directive":%q,"error":"injected crash"`, tc.directive)
				if n, all := log.Count(line), log.Count("an actor crashed"); n != 1 || all != 1 {
					t.Errorf("%d lines, %d in all:\n%s", n, all, log.String())
				}
			})
		})
	}
}

// A user's bad job never spends the budget; but a supervisor that gives up
// because of one has failed itself, whatever reason its strategy hands on.
func TestEscalatedJobCrashIsAFailureOfTheSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		var escalated told
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Logger: zerolog.Nop(),
			Strategy: supervisor.OneForOne(supervisor.Spec{
				Intensity: 2, Period: time.Hour, Decide: func(supervisor.Failure) supervisor.Directive { return supervisor.Restart },
			}),
			Subscribers: []func(event.Event){escalated.subscribe(func(e event.Event) string {
				if e, ok := e.(event.ActorEscalated); ok {
					return e.Path + ": " + e.Err.Error()
				}
				return ""
			})},
			Capsules: []actors.Capsule{{Concurrency: 1, Strategy: made(strategyFunc(func(sup actor.Supervisor, _ *actor.PID, reason any) {
				sup.EscalateFailure(reason, nil)
			}))}},
		})
		for i := range 2 {
			push(k, 1, script.Panic())
			k.Await("the manager's restart", func() bool { return k.Tree().Find("launcher/default").Restarts == i+1 })
		}
		push(k, 1, script.Panic())
		<-k.Done()
		got := escalated.all()
		if len(got) != 4 || !strings.HasPrefix(got[3], "launcher: restart budget spent (2 restarts in 1h0m0s): launcher/default failed: escalated: launcher/default/processor-0 failed: job Scripted") {
			t.Errorf("escalations: %q", got)
		}
	})
}

// From a processor up to the root: what runs is put back, and error and log name
// every supervisor that gave up.
func TestEscalationToTheRootEndsInGoodOrderAndNamesTheChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		var log harness.Buffer
		none := func() *supervisor.Strategy { return supervisor.OneForOne(supervisor.Spec{Intensity: -1}) }
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Logger: zerolog.New(&log), Strategy: none(), Capsules: []actors.Capsule{{Concurrency: 2, Strategy: none()}},
		})
		push(k, 1, script.Hang())
		k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
		began := time.Now()
		for k.Err() == nil {
			_ = k.Daemon.Faults().Crash("launcher/default/processor-0", errInjected)
			synctest.Wait()
		}
		<-k.Done()
		const chain = "restart budget spent (0 restarts in 1m0s): launcher/default failed: " +
			"restart budget spent (0 restarts in 1m0s): launcher/default/processor-0 failed: injected crash"
		if err := k.Err(); err.Error() != chain || !errors.Is(err, errInjected) {
			t.Errorf("error %v\nwant  %s", err, chain)
		}
		harness.Equal(t, "logged times", log.Count(fmt.Sprintf("%q,\"message\":\"the supervision tree gave up: stopping\"", chain)), 1)
		for _, path := range []string{"launcher", "launcher/default"} { // with the stack of the panic that began it
			harness.Equal(t, path+": escalated times in the log", log.Count(fmt.Sprintf("\"actor\":%q,\"directive\":\"escalate\"", path)), 1)
		}
		if n := log.Count(`"stack":""`); n != 0 {
			t.Errorf("%d lines without a stack:\n%s", n, log.String())
		}
		if r := k.Report(); len(r.Requeued) != 1 || len(r.Left)+len(r.Lost)+len(r.Abandoned) != 0 || time.Since(began) > time.Second {
			t.Errorf("after %s: %s", time.Since(began), r)
		}
	})
}

// RestForOne depends on the order, which the library loses when a child ends.
func TestStrategySeesTheChildrenInTheOrderOfTheirStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []string
		k := testkit.Start(t, actors.Config{Logger: zerolog.Nop(), Capsules: []actors.Capsule{{
			Concurrency: 4, Strategy: supervisor.FromProtoactor(strategyFunc(func(sup actor.Supervisor, child *actor.PID, _ any) {
				mu.Lock()
				defer mu.Unlock()
				seen = nil
				for _, pid := range sup.Children() {
					seen = append(seen, strings.TrimPrefix(pid.GetId(), "launcher/default/"))
				}
				sup.StopChildren(child)
			})),
		}}})
		for _, child := range []string{"processor-0", "processor-2"} {
			k.Crash("launcher/default/"+child, errInjected)
			synctest.Wait()
		}
		k.Crash("launcher/default/processor-3", errInjected)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"processor-1", "processor-3", "fetcher"}; !slices.Equal(seen, want) {
			t.Errorf("saw %q, want %q", seen, want)
		}
	})
}

// pointed is one of a user's own, with state.
type pointed struct{ crashes int }

func (p *pointed) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, _, _ any) {
	p.crashes++
	sup.RestartChildren(child)
}

func TestStrategiesAreChecked(t *testing.T) {
	shared := supervisor.Default()
	const empty = "config: Strategy: supervisor: the Strategy is nil or empty, expected one made by OneForOne"
	for name, c := range map[string]struct {
		a, b *supervisor.Strategy
		want string
	}{
		"shared":                 {shared, shared, ""}, // each counts for itself
		"of the library's kind":  {supervisor.FromProtoactor(&pointed{}), supervisor.FromProtoactor(strategyFunc(nil)), ""},
		"faulty":                 {supervisor.OneForOne(supervisor.Spec{Intensity: -3}), nil, "config: Strategy: supervisor: Intensity is -3, expected"},
		"nil":                    {nil, supervisor.FromProtoactor((*pointed)(nil)), "config: Capsules[0].Strategy: it is a nil *actors_test.pointed, expected a strategy"},
		"empty":                  {&supervisor.Strategy{}, nil, empty},
		"nothing of theirs":      {supervisor.FromProtoactor(nil), nil, empty},
		"a Validate that panics": {supervisor.FromProtoactor(badValidate{}), nil, "config: Strategy: method Validate of a actors_test.badValidate: panic: validate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := actors.New(actors.Config{
				Redis: testkit.NewMemory(t).Client, Registry: new(troupe.Registry), Strategy: c.a,
				Capsules: []actors.Capsule{{Strategy: c.b}},
			})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

type badValidate struct{}

func (badValidate) HandleFailure(*actor.ActorSystem, actor.Supervisor, *actor.PID, *actor.RestartStatistics, any, any) {
}

func (badValidate) Validate() error { panic("validate") }
