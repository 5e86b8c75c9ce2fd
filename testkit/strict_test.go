package testkit_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

func strict(tb testing.TB, s *script.Jobs) *testkit.Kit {
	return testkit.Start(tb, one(s, nil), testkit.Strict())
}

// panics crashes the processor n times by its jobs; after quiet it would only end.
func panics(k *testkit.Kit, n int) {
	for i := range n {
		k.Push(script.Panic())
		k.Await("the restart", func() bool { return k.Tree().Find(processor).Restarts == i+1 })
	}
}

func TestStrictFailsOnWhatWasNotExpected(t *testing.T) {
	for name, c := range map[string]struct {
		f    func(k *testkit.Kit, s *script.Jobs)
		want []string
	}{
		"a panicking job": {
			func(k *testkit.Kit, _ *script.Jobs) { panics(k, 1) },
			[]string{"unexpected: ", "ActorCrashed " + processor, "scripted panic", "kit.Expect", "kit.Allow(testkit.Crashes(path))"},
		},
		"one crash more than allowed": {
			func(k *testkit.Kit, _ *script.Jobs) {
				k.Allow(testkit.Crashes(processor).Times(1))
				panics(k, 2)
			},
			[]string{"ActorCrashed " + processor},
		},
		"another cause than the allowed": {
			func(k *testkit.Kit, _ *script.Jobs) {
				k.Allow(testkit.Crashes(processor).Because(troupe.ErrFenced))
				_ = k.Daemon.Faults().Crash(processor, errBoom)
			},
			[]string{"ActorCrashed " + processor + ": boom"},
		},
		"an unresponsive job": {
			func(k *testkit.Kit, s *script.Jobs) {
				jid := k.Push(script.Step{Do: "unresponsive"})
				k.Await("it runs", func() bool { return s.Runs()[jid] > 0 })
				k.Stop()
				s.Release()
			},
			[]string{"unexpected: JobsAbandoned"},
		},
		"a dead letter": {
			func(k *testkit.Kit, _ *script.Jobs) {
				sys := k.Daemon.Faults().Actors()
				sys.Root.Send(actor.NewPID(sys.Address(), "launcher/nobody"), ping{})
			},
			[]string{"dead letter: testkit_test.ping to launcher/nobody"},
		},
		"the end of the daemon": {
			func(k *testkit.Kit, _ *script.Jobs) {
				for k.Err() == nil {
					_ = k.Daemon.Faults().Crash("launcher", errBoom)
					synctest.Wait()
				}
			},
			[]string{"the daemon gave up", "boom"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				harness.Fails(t, func(tb testing.TB) {
					s := script.New(tb)
					c.f(strict(tb, s), s)
				}, append(c.want, "strict:")...)
			})
		})
	}
}

func TestStrictPassesWhatWasExpected(t *testing.T) {
	for name, f := range map[string]func(k *testkit.Kit, s *script.Jobs){
		"nothing": func(*testkit.Kit, *script.Jobs) {},
		"failing jobs": func(k *testkit.Kit, s *script.Jobs) {
			jid := k.Push(script.Fail())
			k.Await("it ran", func() bool { return s.Ended(jid) })
		},
		"a crash by the kit": func(k *testkit.Kit, _ *script.Jobs) {
			for _, path := range []string{processor, "launcher/default", "launcher"} {
				k.Expect(testkit.Restarts(path), func() { k.Crash(path, errBoom) })
			}
		},
		"an allowed crash": func(k *testkit.Kit, _ *script.Jobs) {
			panics(k, 1)
			k.Allow(testkit.Crashes("launcher/default/processor-*"))
		},
		"expected restarts": func(k *testkit.Kit, _ *script.Jobs) {
			k.Expect(testkit.Restarts(processor).Times(1), func() { k.Push(script.Panic()) })
		},
		"wake-ups to the dead": func(k *testkit.Kit, _ *script.Jobs) {
			k.Quiet()
			k.Await("stopped "+processor, inState(k, processor, actors.StateStopped))
			k.Push(script.OK())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				harness.Passes(t, func(tb testing.TB) {
					s := script.New(tb)
					f(strict(tb, s), s)
				})
			})
		})
	}
}

func TestStrictFailsOnAStrategyThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		undecided := func(tb testing.TB) *testkit.Kit {
			cfg := one(script.New(tb), nil)
			cfg.Strategy = supervisor.OneForOne(supervisor.Spec{Decide: func(supervisor.Failure) supervisor.Directive { panic("undecided") }})
			return testkit.Start(tb, cfg, testkit.Strict())
		}
		harness.Fails(t, func(tb testing.TB) {
			undecided(tb).Crash("launcher/poller", errBoom)
			synctest.Wait() // a stop that begins at once would leave nothing to decide
		}, "unexpected: ", "StrategyOverruled launcher: panic: undecided")
		harness.Passes(t, func(tb testing.TB) {
			k := undecided(tb)
			// The crash is in the function: what comes before Expect is not seen by it.
			k.Expect(testkit.Events[event.StrategyOverruled]().Saying("undecided"), func() { k.Crash("launcher/poller", errBoom) })
		})
	})
}

func TestStrictFindsLeakedGoroutinesInRealTime(t *testing.T) {
	harness.Passes(t, func(tb testing.TB) { strict(tb, script.New(tb)) })
	leak := make(chan struct{})
	defer close(leak)
	harness.Fails(t, func(tb testing.TB) {
		strict(tb, script.New(tb))
		go func() { <-leak }()
	}, "strict: found unexpected goroutines", "TestStrictFindsLeakedGoroutinesInRealTime")
}

func TestStrictFailsOnUnsettledJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness.Fails(t, func(tb testing.TB) {
			m := testkit.NewMemory(tb)
			s := script.New(tb)
			cfg := one(s, m.Client)
			cfg.Capsules[0].Fetch = fetch.NewReliable
			k := testkit.Start(tb, cfg, testkit.Strict())
			jid := k.Push(script.Hang())
			k.Await("it runs", func() bool { return s.Runs()[jid] > 0 })
			m.SetError("LOADING Redis is loading the dataset in memory")
			k.Stop()
			m.SetError("")
		}, "left unsettled: job Scripted")
	})
}

// In a bubble a goroutine that is left is the end of the test binary: the stack
// is told first.
func TestStrictFindsLeakedGoroutinesInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leak := make(chan struct{})
		harness.Fails(t, func(tb testing.TB) {
			strict(tb, script.New(tb))
			go func() { <-leak }()
		}, "strict: found unexpected goroutines", "TestStrictFindsLeakedGoroutinesInABubble")
		close(leak)
	})
}

// Who only sleeps does not stay: the kit waits for it, in the bubble's time.
func TestADeciderThatSleepsOutlivesNoBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := one(script.New(t), nil)
		cfg.Logger = zerolog.Nop()
		cfg.Strategy = supervisor.OneForOne(supervisor.Spec{Decide: func(supervisor.Failure) supervisor.Directive {
			time.Sleep(3 * time.Second)
			return supervisor.Restart
		}})
		k := testkit.Start(t, cfg, testkit.Strict())
		k.Expect(testkit.Events[event.StrategyOverruled](), func() { k.Crash("launcher/poller", errBoom) })
	})
}

// The tree is that of the running daemon, once, with what the test held.
func TestStrictShowsTheTreeAsItWasBeforeTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, text := harness.Try(t, func(tb testing.TB) {
			k := strict(tb, script.New(tb))
			panics(k, 1)
			k.Hold("launcher/poller")
		})
		for what, want := range map[string]int{
			"launcher                 running": 1, "launcher                 stopped": 0, "held by the test: launcher/poller": 1,
		} {
			if n := strings.Count(text, what); n != want {
				t.Errorf("%q stands there %d times, want %d:\n%s", what, n, want, text)
			}
		}
		_, text = harness.Try(t, func(tb testing.TB) {
			k := strict(tb, script.New(tb))
			panics(k, 1)
			k.Await("the impossible", func() bool { return false })
		})
		if n := strings.Count(text, "launcher   "); n != 1 || !strings.Contains(text, "strict:") {
			t.Errorf("%d trees, want 1:\n%s", n, text)
		}
	})
}

// What the kit has not seen may have been anything.
func TestStrictFailsOnEventsThatItLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness.Fails(t, func(tb testing.TB) {
			k := strict(tb, script.New(tb))
			k.LoseEvents(3)
		}, "strict:", "3 events came too fast to be seen")
	})
}

type ping struct{}
