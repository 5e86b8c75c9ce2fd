package actors_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/actors/internal/strategy"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// replacing is a strategy of the kind that replaces, after 10 s from the second
// failure in a minute on.
func replacing(t *testing.T, kind string) *supervisor.Strategy {
	t.Helper()
	return map[string]func(supervisor.Spec) *supervisor.Strategy{
		"one_for_one": supervisor.OneForOne, "all_for_one": supervisor.AllForOne, "rest_for_one": supervisor.RestForOne,
	}[kind](supervisor.Spec{
		Intensity: 5, Period: time.Minute, Replace: true,
		Backoff: supervisor.Backoff{Min: 10 * time.Second, Max: 10 * time.Second},
	})
}

// lives is what becomes of actors: "stopped PATH", "started PATH".
func lives(e event.Event) string {
	switch e := e.(type) {
	case event.ActorStopped:
		return "stopped " + e.Path
	case event.ActorRestarted:
		return "started " + e.Path
	}
	return ""
}

func TestReplacedActorsEndAndHaveReplacements(t *testing.T) {
	for _, path := range []string{
		"launcher/heartbeat", "launcher/rescuer", "launcher/poller", "launcher/default",
		"launcher/default/fetcher", "launcher/default/processor-0",
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := script.New(t)
				var life told
				var log harness.Buffer
				k := testkit.Start(t, actors.Config{
					Registry: s.Registry(), Logger: zerolog.New(&log), Strategy: replacing(t, "one_for_one"),
					Capsules: []actors.Capsule{{Concurrency: 1, Strategy: replacing(t, "one_for_one")}},
					Subscribers: []func(event.Event){life.subscribe(func(e event.Event) string {
						if s := lives(e); strings.HasSuffix(s, " "+path) {
							return s
						}
						return ""
					})},
				})
				running := push(k, 1, script.Slow(20*time.Second))[0]
				k.Await("a job runs", func() bool { return s.Runs()[running] > 0 })
				began := time.Now()
				for i := range 2 {
					k.Crash(path, errInjected)
					k.Await("the successor", func() bool { return k.Tree().Find(path).Restarts == i+1 })
					synctest.Wait()
				}
				harness.Equal(t, "the second successor came after", time.Since(began).Round(time.Second), 10*time.Second)
				want := []string{"stopped " + path, "started " + path, "stopped " + path, "started " + path}
				harness.EqualList(t, "told", life.all(), want)
				push(k, 10, script.OK())
				k.Await("all jobs", func() bool { return k.Stats().Processed == 11 && inProgress(t, k.Redis) == 0 })
				if runs, most := s.Runs(), s.Most(); runs[running] != 1 || most != 1 {
					t.Errorf("the job that ran meanwhile ran %d times; %d jobs at once", runs[running], most)
				}
				harness.Equal(t, "told times that it will not be replaced", log.Count("will not be replaced"), 0)
				if r := k.Stop(); len(r.Left)+len(r.Requeued) > 0 || time.Since(began) > 25*time.Second {
					t.Errorf("drain report after %s: %s", time.Since(began), r)
				}
			})
		})
	}
}

// While the only processor waits for its successor, the capsule is alive: jobs
// wait, too, and the tree says for how long.
func TestCapsuleWaitsForTheReplacementOfItsOnlyProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 1, Strategy: replacing(t, "one_for_one")}},
		})
		const path = "launcher/default/processor-0"
		for range 2 {
			k.Crash(path, errInjected)
			synctest.Wait()
		}
		push(k, 1, script.OK())
		time.Sleep(4 * time.Second)
		if n := k.Tree().Find(path); n.State != actors.StateRestarting || n.Note != "in 6s" {
			t.Errorf("state %s, note %q in\n%s", n.State, n.Note, k.Tree())
		}
		if st := k.Stats(); st.Processed != 0 {
			t.Errorf("%+v", st)
		}
		k.Await("the job", func() bool { return k.Stats().Processed == 1 })
	})
}

// After quiet nobody is needed but those who keep the process alive in Redis.
func TestQuietCapsuleStartsNoReplacements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Logger: zerolog.Nop(), Strategy: replacing(t, "one_for_one"),
			Capsules: []actors.Capsule{{Concurrency: 3, Strategy: replacing(t, "one_for_one")}},
		})
		push(k, 1, script.Hang())
		k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
		busy, idle := "", ""
		for _, n := range k.Tree() {
			switch n.State {
			case actors.StateBusy:
				busy = n.Path
			case actors.StateIdle:
				idle = n.Path
			}
		}
		for range 2 { // the second successor is to come in 10 s
			k.Crash(idle, errInjected)
			synctest.Wait()
		}
		k.Crash("launcher/poller", errInjected)
		synctest.Wait()
		k.Crash("launcher/poller", errInjected)
		synctest.Wait()
		k.Quiet()
		synctest.Wait()
		if n := k.Tree().Find(idle); n.State != actors.StateStopped {
			t.Errorf("after quiet the tree still announces a successor:\n%s", k.Tree())
		}
		k.Crash(busy, errInjected)
		k.Crash("launcher/heartbeat", errInjected)
		time.Sleep(time.Minute)
		synctest.Wait()
		tree := k.Tree()
		for path, want := range map[string]int{idle: 1, busy: 0, "launcher/poller": 1, "launcher/heartbeat": 1, "launcher/default": 0} {
			if got := tree.Find(path).Restarts; got != want {
				t.Errorf("%d successors of %s, want %d\n%s", got, path, want, tree)
			}
		}
		s.Release()
		began := time.Now()
		if r := k.Stop(); len(r.Requeued) > 0 || time.Since(began) > time.Second {
			t.Errorf("the stop took %s: %s", time.Since(began), r)
		}
	})
}

// Quiet may begin when the time has come and the manager has not heard of it.
func TestQuietBeforeTheManagerHearsOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testkit.Start(t, actors.Config{
			Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 1, Strategy: replacing(t, "one_for_one")}},
		})
		const path = "launcher/default/processor-0"
		for range 2 {
			k.Crash(path, errInjected)
			synctest.Wait()
		}
		k.Hold("launcher/default")
		time.Sleep(11 * time.Second)
		k.Quiet()
		k.Release("launcher/default")
		synctest.Wait()
		if n := k.Tree().Find(path); n.Restarts != 1 || n.State != actors.StateStopped {
			t.Errorf("%d successors, %s", n.Restarts, n.State)
		}
	})
}

// The last to start is the first to end; and they come back together.
func TestGroupIsReplacedTogetherAndStartsInItsOrder(t *testing.T) {
	all := []string{"processor-0", "processor-1", "processor-2", "fetcher"}
	for kind, want := range map[string][]string{"all_for_one": all, "rest_for_one": all[1:]} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var life told
				k := testkit.Start(t, actors.Config{
					Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 3, Strategy: replacing(t, kind)}},
					Subscribers: []func(event.Event){life.subscribe(lives)},
				})
				for range 2 { // at once, and then after a while
					before := len(life.all())
					k.Crash("launcher/default/processor-1", errInjected)
					time.Sleep(11 * time.Second)
					synctest.Wait()
					got := life.all()[before:]
					if len(got) != 2*len(want) {
						t.Fatalf("told %q", got)
					}
					for i, name := range want {
						if line := "stopped launcher/default/" + name; !slices.Contains(got[:len(want)], line) {
							t.Errorf("%q is not among the first of %q", line, got)
						}
						if line := "started launcher/default/" + name; !slices.Contains(got[len(want):], line) {
							t.Errorf("%q is not among the last of %q: %d", line, got, i)
						}
					}
				}
			})
		})
	}
}

// A strategy that replaces can still stop a child for good.
func TestActorsStoppedForGoodAreToldApartFromReplacedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log harness.Buffer
		s := script.New(t)
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Logger: zerolog.New(&log), Capsules: []actors.Capsule{{Concurrency: 2, Strategy: supervisor.OneForOne(supervisor.Spec{
				Intensity: 5, Period: time.Minute, Replace: true,
				Decide: func(f supervisor.Failure) supervisor.Directive {
					if strings.HasSuffix(f.Path, "-0") {
						return supervisor.Stop
					}
					return supervisor.Restart
				},
			})}},
		})
		k.Crash("launcher/default/processor-1", errInjected)
		synctest.Wait()
		if n := log.Count("will not be replaced"); n != 0 || k.Tree().Find("launcher/default/processor-1").Restarts != 1 {
			t.Errorf("told %d times of one that is replaced\n%s", n, k.Tree())
		}
		k.Crash("launcher/default/processor-0", errInjected)
		synctest.Wait()
		if n := log.Count(`"actor":"launcher/default/processor-0","processors_left":1,"message":"an actor was stopped by its strategy and will not be replaced"`); n != 1 {
			t.Errorf("told %d times of one that is not:\n%s", n, log.String())
		}
		push(k, 5, script.OK())
		k.Await("the jobs, by the other", func() bool { return k.Stats().Processed == 5 })
	})
}

// Bad jobs are replaced at once and spend nothing; the processor's own failures
// do, and more than the budget allows escalate.
func TestReplacementSpendsTheBudgetAsARestartDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 1, Strategy: supervisor.OneForOne(supervisor.Spec{
				Intensity: 3, Period: time.Hour, Replace: true,
			})}},
		})
		push(k, 40, script.Panic())
		push(k, 1, script.OK())
		k.Await("all", func() bool { return k.Stats().Processed == 41 })
		if n := k.Tree().Find("launcher/default").Restarts; n != 0 {
			t.Fatalf("the manager restarted %d times for bad jobs", n)
		}
		for i := range 4 {
			if n := k.Tree().Find("launcher/default").Restarts; n != 0 {
				t.Fatalf("the manager restarted after %d crashes", i)
			}
			k.Await("idle launcher/default/processor-0", inState(k, "launcher/default/processor-0", actors.StateIdle))
			k.Crash("launcher/default/processor-0", fmt.Errorf("%w %d", errInjected, i))
			synctest.Wait()
		}
		k.Await("the manager's restart", func() bool { return k.Tree().Find("launcher/default").Restarts == 1 })
		push(k, 1, script.OK())
		k.Await("one more", func() bool { return k.Stats().Processed == 42 })
	})
}

// misguided is a strategy of a user's that names children of its own fancy, and
// each of its real ones twice.
type misguided struct{ *strategy.Strategy }

func (m misguided) Due(now time.Time) ([]string, time.Time) {
	paths, next := m.Strategy.Due(now)
	return append([]string{"launcher/default/nobody", "launcher", "", "launcher/default/processor-1"}, append(paths, paths...)...), next
}

func TestOnlyChildrenThatEndedHaveReplacements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testkit.Start(t, actors.Config{
			Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 2, Strategy: supervisor.FromProtoactor(misguided{strategy.Of(replacing(t, "one_for_one"))})}},
		})
		before := len(k.Tree())
		k.Crash("launcher/default/processor-0", errInjected)
		synctest.Wait()
		tree := k.Tree()
		if tree.Find("launcher/default/processor-0").Restarts != 1 || tree.Find("launcher/default").Restarts != 0 || len(tree) != before {
			t.Errorf("the tree has %d actors, had %d\n%s", len(tree), before, tree)
		}
	})
}
