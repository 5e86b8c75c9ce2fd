package testkit_test

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

const processor = "launcher/default/processor-0"

// everywhere runs a test in real time on a real Redis and in a bubble.
func everywhere(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Run("real", func(t *testing.T) { f(t, testkit.Redis(t)) })
	t.Run("bubble", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, testkit.NewMemory(t).Client) })
	})
}

func one(s *script.Jobs, rdb redis.UniversalClient) actors.Config {
	return actors.Config{Redis: rdb, Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 1}}}
}

func TestHeldActorGetsItsMessagesAtTheRelease(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := script.New(t)
		k := testkit.Start(t, one(s, rdb), testkit.Strict())
		k.Await("idle "+processor, inState(k, processor, actors.StateIdle))
		k.Hold(processor)
		jid := k.Push(script.OK())
		k.Await("a wake-up is held", func() bool {
			tree := k.Tree()
			n := tree.Find(processor)
			return n.Depth > 0
		})
		if s.Runs()[jid] > 0 {
			t.Error("the job started, though its processor is held")
		}
		// a restart passes, and does not end the hold
		k.Expect(testkit.Restarts(processor).Times(1), func() { k.Crash(processor, errBoom) })
		if n := k.Tree().Find(processor); n.Depth == 0 || s.Runs()[jid] > 0 {
			t.Error("the restart has ended the hold")
		}
		k.Release(processor)
		k.Await("an empty mailbox", func() bool {
			tree := k.Tree()
			n := tree.Find(processor)
			return n.Depth == 0
		})
		k.Await("the job", func() bool { return s.Ended(jid) })
		next := k.Push(script.OK())
		k.Await("the next job", func() bool { return s.Ended(next) })
	})
}

func TestSuspendedActorGoesOnAtTheResume(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := script.New(t)
		k := testkit.Start(t, one(s, rdb), testkit.Strict())
		k.Await("idle "+processor, inState(k, processor, actors.StateIdle))
		k.Suspend(processor)
		jid := k.Push(script.OK())
		k.Await("a wake-up waits", func() bool {
			tree := k.Tree()
			n := tree.Find(processor)
			return n.Depth > 0
		})
		if s.Runs()[jid] > 0 {
			t.Error("the job started, though its processor is suspended")
		}
		k.Resume(processor)
		k.Await("the job", func() bool { return s.Ended(jid) })
	})
}

func TestStopEndsInTimeWhateverIsHeld(t *testing.T) {
	for _, path := range []string{"launcher", "launcher/default", "launcher/default/fetcher", processor, "launcher/heartbeat", "launcher/poller"} {
		for _, how := range []string{"hold", "suspend"} {
			t.Run(how+" "+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := script.New(t)
					k := testkit.Start(t, one(s, nil), testkit.Strict())
					k.Allow(testkit.Events[event.JobsAbandoned]())
					hung := k.Push(script.Hang())
					k.Await("the job runs", func() bool { return s.Runs()[hung] > 0 })
					if how == "hold" {
						k.Hold(path)
					} else {
						k.Suspend(path)
					}
					start := time.Now()
					r := k.Stop()
					if took := time.Since(start); took > 33*time.Second {
						t.Errorf("the stop took %s", took)
					}
					if len(r.Requeued) != 1 {
						t.Errorf("drain report: %s", r)
					}
				})
			})
		}
	}
}

func TestSuspendedActorKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, one(s, nil))
		k.Await("idle "+processor, inState(k, processor, actors.StateIdle))
		var mu sync.Mutex
		var seen []string
		cancel := k.Subscribe(func(e event.Event) {
			if c, ok := e.(event.ActorCrashed); ok {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, c.Err.Error())
			}
		})
		defer cancel()
		k.Suspend(processor) // crashes wait behind it, in order
		for i := range 3 {
			k.Crash(processor, fmt.Errorf("crash %d", i))
		}
		k.Expect(testkit.Crashes(processor).Times(3), func() { k.Resume(processor) })
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		harness.EqualList(t, "crashes", seen, []string{"crash 0", "crash 1", "crash 2"})
	})
}

func TestInjectionNamesTheMissingActor(t *testing.T) {
	for name, do := range map[string]func(*testkit.Kit){
		"crash":   func(k *testkit.Kit) { k.Crash("launcher/nobody", errBoom) },
		"hold":    func(k *testkit.Kit) { k.Hold("launcher/nobody") },
		"release": func(k *testkit.Kit) { k.Release("launcher/nobody") },
		"suspend": func(k *testkit.Kit) { k.Suspend("launcher/nobody") },
		"resume":  func(k *testkit.Kit) { k.Resume("launcher/nobody") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				harness.Fails(t, func(tb testing.TB) {
					do(testkit.Start(tb, one(script.New(tb), nil)))
				}, name+`: actors: no actor at "launcher/nobody"`, "launcher", "processor-0")
			})
		})
	}
}

// What a failing Await shows: tree, what the test holds, the last events.
func TestFailingAwaitShowsTheTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		harness.Fails(t, func(tb testing.TB) {
			s := script.New(tb)
			k := testkit.Start(tb, one(s, nil))
			k.Push(script.Panic())
			k.Await("the restart", func() bool { return k.Tree().Find(processor).Restarts == 1 })
			k.Hold("launcher/poller")
			k.Await("the impossible", func() bool { return false })
		}, "not within 1m0s: the impossible", "restarts 1", "held by the test: launcher/poller",
			"ActorCrashed "+processor+": job Scripted", "JobRetried Scripted")
	})
}

func TestEventFiltersCount(t *testing.T) {
	in := func(t *testing.T, f func(k *testkit.Kit)) func(tb testing.TB) {
		return func(tb testing.TB) { f(testkit.Start(tb, one(script.New(tb), nil))) }
	}
	panics := func(k *testkit.Kit, n int) func() {
		return func() {
			for range n {
				k.Push(script.Panic())
			}
		}
	}
	good := map[string]func(k *testkit.Kit){
		"exactly": func(k *testkit.Kit) {
			k.Expect(testkit.Crashes("launcher/default/processor-*").Times(2), panics(k, 2))
		},
		"at least": func(k *testkit.Kit) { k.Expect(testkit.Crashes("launcher/*/*").AtLeast(2), panics(k, 3)) },
		"one":      func(k *testkit.Kit) { k.Expect(testkit.Restarts(processor), panics(k, 1)) },
		"never":    func(k *testkit.Kit) { k.Expect(testkit.Crashes("launcher").Times(0), panics(k, 1)) },
		"jobs": func(k *testkit.Kit) {
			k.Expect(testkit.Events[event.JobRetried]().Of("Scripted").Times(1), panics(k, 1))
		},
		"typed": func(k *testkit.Kit) {
			k.Expect(testkit.Events(func(e event.JobFailed) bool { return e.Crashed }).Times(1), panics(k, 1))
		},
		"because": func(k *testkit.Kit) {
			k.Expect(testkit.Crashes(processor).Because(errBoom).Times(1), func() {
				panics(k, 1)()
				k.Crash(processor, errBoom)
			})
		},
		"saying": func(k *testkit.Kit) {
			k.Expect(testkit.Crashes(processor).Saying("scripted panic"), panics(k, 1))
		},
		"starts and stops": func(k *testkit.Kit) {
			k.Expect(testkit.Events[event.ActorStopped]().At("launcher/default/*").AtLeast(2), func() { k.Stop() })
		},
	}
	for name, f := range good {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { harness.Passes(t, in(t, f)) })
		})
	}
	for name, c := range map[string]struct {
		f    func(k *testkit.Kit)
		want []string
	}{
		"too few": {
			func(k *testkit.Kit) { k.Expect(testkit.Crashes(processor).Times(3), panics(k, 2)) },
			[]string{"expected exactly 3 ActorCrashed of " + processor + ", got 2", "scripted panic"},
		},
		"too many": {
			func(k *testkit.Kit) { k.Expect(testkit.Crashes(processor).Times(1), panics(k, 2)) },
			[]string{"expected exactly 1", "got 2"},
		},
		"none was expected": {
			func(k *testkit.Kit) { k.Expect(testkit.Crashes(processor).Times(0), panics(k, 1)) },
			[]string{"expected no ActorCrashed", "got 1"},
		},
		"one too many in the time that was given": {
			func(k *testkit.Kit) {
				k.Expect(testkit.Crashes(processor).Times(1).Within(time.Minute), func() { panics(k, 1)(); crashLater(k) })
			},
			[]string{"expected exactly 1", "got 2"},
		},
		"one in the time that was given": {
			func(k *testkit.Kit) {
				k.Expect(testkit.Crashes(processor).Times(0).Within(time.Minute), func() { crashLater(k) })
			},
			[]string{"expected no ActorCrashed", "got 1"},
		},
		"the zero filter":        {func(k *testkit.Kit) { k.Expect(testkit.Filter{}, nil) }, []string{"zero Filter"}},
		"the zero filter, again": {func(k *testkit.Kit) { k.Allow(testkit.Filter{}) }, []string{"zero Filter"}},
		"a bad pattern": {
			func(k *testkit.Kit) { k.Expect(testkit.Crashes("launcher/default/proc[").Times(0), nil) },
			[]string{`pattern "launcher/default/proc[": ` + path.ErrBadPattern.Error()},
		},
		"a bad pattern that is allowed": {
			func(k *testkit.Kit) { k.Allow(testkit.Crashes("[").Saying("boom")) },
			[]string{path.ErrBadPattern.Error()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { harness.Fails(t, in(t, c.f), c.want...) })
		})
	}
}

// crashLater crashes the processor after a second.
func crashLater(k *testkit.Kit) {
	time.AfterFunc(time.Second, func() { _ = k.Daemon.Faults().Crash(processor, errBoom) })
}

// A logger that was chosen stays: only the zero one is replaced.
func TestTheLoggerOfATestIsItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		level zerolog.Level
		lines int
	}{"info": {zerolog.InfoLevel, 1}, "error": {zerolog.ErrorLevel, 1}, "off": {zerolog.Disabled, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				failed, text := harness.Try(t, func(tb testing.TB) {
					cfg := one(script.New(tb), nil)
					cfg.Logger = zerolog.New(&log).Level(c.level)
					k := testkit.Start(tb, cfg)
					k.Crash(processor, errBoom)
					k.Await("the restart", func() bool { return k.Tree().Find(processor).Restarts == 1 })
				})
				if n := strings.Count(log.String(), "an actor crashed"); n != c.lines || failed || strings.Contains(text, "crashed") {
					t.Errorf("%d lines in the logger, want %d; in the test's log: %s", n, c.lines, text)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		_, text := harness.Try(t, func(tb testing.TB) {
			k := testkit.Start(tb, one(script.New(tb), nil))
			k.Push(script.Panic())
			k.Await("the restart", func() bool { return k.Tree().Find(processor).Restarts == 1 })
		})
		line := regexp.MustCompile(`.*"message":"an actor crashed".*`).FindString(text)
		if len(line) < 100 || len(line) > 700 || !strings.Contains(line, "testkit/script/jobs.go:") {
			t.Errorf("want a line with the place of the panic:\n%s", line)
		}
	})
}
