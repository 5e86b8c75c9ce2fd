package testkit_test

import (
	"testing"
	"testing/synctest"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
)

func strict(tb testing.TB, s *testkit.Scripted) *testkit.Kit {
	return testkit.Start(tb, one(s, nil), testkit.Strict())
}

// panics crashes the processor n times by its jobs; after quiet it would only end.
func panics(k *testkit.Kit, n int) {
	for i := range n {
		k.Push(testkit.Panic())
		k.AwaitTree("the restart", func(t actors.Tree) bool { return t.Restarts(processor) == i+1 })
	}
}

func TestStrictFailsOnWhatWasNotExpected(t *testing.T) {
	for name, c := range map[string]struct {
		f    func(k *testkit.Kit, s *testkit.Scripted)
		want []string
	}{
		"a panicking job": {
			func(k *testkit.Kit, _ *testkit.Scripted) { panics(k, 1) },
			[]string{"unexpected: ", "ActorCrashed " + processor, "scripted panic"},
		},
		"one crash more than allowed": {
			func(k *testkit.Kit, _ *testkit.Scripted) {
				k.Allow(testkit.Crashes(processor).Times(1))
				panics(k, 2)
			},
			[]string{"ActorCrashed " + processor},
		},
		"another cause than the allowed": {
			func(k *testkit.Kit, _ *testkit.Scripted) {
				k.Allow(testkit.Crashes(processor).Because(troupe.ErrFenced))
				_ = k.Daemon.Crash(processor, errBoom)
			},
			[]string{"ActorCrashed " + processor + ": boom"},
		},
		"a deaf job": {
			func(k *testkit.Kit, s *testkit.Scripted) {
				jid := k.Push(testkit.Deaf())
				k.Await("it runs", func() bool { return s.Started(jid) })
				k.Stop()
				s.Release()
			},
			[]string{"unexpected: JobsAbandoned"},
		},
		"a dead letter": {
			func(k *testkit.Kit, _ *testkit.Scripted) {
				k.ActorSystem().Root.Send(k.PID("launcher/nobody"), ping{1})
			},
			[]string{"dead letter: testkit_test.ping to launcher/nobody"},
		},
		"the end of the daemon": {
			func(k *testkit.Kit, _ *testkit.Scripted) {
				for k.Err() == nil {
					_ = k.Daemon.Crash("launcher", errBoom)
					synctest.Wait()
				}
			},
			[]string{"the daemon gave up", "boom"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fails(t, func(tb testing.TB) {
					s := testkit.NewScripted(tb)
					c.f(strict(tb, s), s)
				}, append(c.want, "strict:")...)
			})
		})
	}
}

func TestStrictPassesWhatWasExpected(t *testing.T) {
	for name, f := range map[string]func(k *testkit.Kit, s *testkit.Scripted){
		"nothing": func(*testkit.Kit, *testkit.Scripted) {},
		"failing jobs": func(k *testkit.Kit, s *testkit.Scripted) {
			jid := k.Push(testkit.Fail())
			k.Await("it ran", func() bool { return s.Ended(jid) })
		},
		"a crash by the kit": func(k *testkit.Kit, _ *testkit.Scripted) {
			for _, path := range []string{processor, "launcher/default", "launcher"} {
				k.Expect(testkit.Restarts(path), func() { k.Crash(path, errBoom) })
			}
		},
		"an allowed crash": func(k *testkit.Kit, _ *testkit.Scripted) {
			panics(k, 1)
			k.Allow(testkit.Crashes("launcher/default/processor-*"))
		},
		"expected restarts": func(k *testkit.Kit, _ *testkit.Scripted) {
			k.Expect(testkit.Restarts(processor).Times(1), func() { k.Push(testkit.Panic()) })
		},
		"doorbells to the dead": func(k *testkit.Kit, _ *testkit.Scripted) {
			k.Quiet()
			k.AwaitState(processor, actors.StateStopped)
			k.Push(testkit.OK())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				passes(t, func(tb testing.TB) {
					s := testkit.NewScripted(tb)
					f(strict(tb, s), s)
				})
			})
		})
	}
}

func TestStrictFailsOnAStrategyThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := func(tb testing.TB) *testkit.Kit {
			cfg := one(testkit.NewScripted(tb), nil)
			cfg.Strategy = supervisor.OneForOne(supervisor.Spec{Decide: func(supervisor.Failure) supervisor.Directive { panic("undecided") }})
			k := testkit.Start(tb, cfg, testkit.Strict())
			k.Crash("launcher/poller", errBoom)
			return k
		}
		fails(t, func(tb testing.TB) { crash(tb) }, "unexpected: ", "StrategyOverruled launcher: panic: undecided")
		passes(t, func(tb testing.TB) {
			crash(tb).Expect(testkit.Events[actors.StrategyOverruled]().Saying("undecided"), nil)
		})
	})
}

func TestStrictFindsLeakedGoroutinesInRealTime(t *testing.T) {
	passes(t, func(tb testing.TB) { strict(tb, testkit.NewScripted(tb)) })
	leak := make(chan struct{})
	defer close(leak)
	fails(t, func(tb testing.TB) {
		strict(tb, testkit.NewScripted(tb))
		go func() { <-leak }()
	}, "strict: found unexpected goroutines", "TestStrictFindsLeakedGoroutinesInRealTime")
}

func TestStrictFailsOnUnsettledJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails(t, func(tb testing.TB) {
			m := testkit.NewMemory(tb)
			s := testkit.NewScripted(tb)
			cfg := one(s, m.Client)
			cfg.Capsules[0].Fetch = fetch.NewReliable
			k := testkit.Start(tb, cfg, testkit.Strict())
			jid := k.Push(testkit.Hang())
			k.Await("it runs", func() bool { return s.Started(jid) })
			m.SetError("LOADING Redis is loading the dataset in memory")
			k.Stop()
			m.SetError("")
		}, "left unsettled: job Scripted")
	})
}
