package actors_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// An actor that takes no messages says why: held, suspended, or waiting for its
// restart; with the job that goes on meanwhile.
func TestTreeShowsWhyAnActorTakesNoMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		slow := supervisor.Spec{Intensity: 9, Period: time.Hour, Backoff: supervisor.Backoff{Min: 10 * time.Second}}
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Logger: zerolog.Nop(), Strategy: supervisor.OneForOne(slow),
			Capsules: []actors.Capsule{{Concurrency: 1, Strategy: supervisor.AllForOne(slow)}},
		})
		show := func(path string) string {
			synctest.Wait()
			n := k.Tree().Find(path)
			job := ""
			if n.Job != nil {
				job = " " + n.Job.Class
			}
			return strings.TrimSpace(string(n.State)+" "+n.Note) + job
		}
		expect := func(path, want string) {
			t.Helper()
			if got := show(path); got != want {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
		const processor, fetcher, poller = "launcher/default/processor-0", "launcher/default/fetcher", "launcher/poller"
		push(k, 1, script.Hang())
		k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
		expect(processor, "busy Scripted")
		k.Hold(processor)
		expect(processor, "held Scripted")
		k.Release(processor)
		k.Suspend(processor)
		expect(processor, "suspended Scripted")
		k.Resume(processor)
		expect(processor, "busy Scripted")
		k.Suspend(poller)
		k.Hold(poller)
		expect(poller, "held")
		k.Release(poller)
		expect(poller, "suspended")
		k.Resume(poller)
		expect(poller, "running")

		k.Crash(poller, errInjected)
		expect(poller, "running") // again
		k.Crash(poller, errInjected)
		expect(poller, "restarting in 10s")
		time.Sleep(2500 * time.Millisecond)
		expect(poller, "restarting in 7.5s")
		if line := " restarting in 7.5s  restarts 1: injected crash"; !strings.Contains(k.Tree().String(), line) {
			t.Errorf("no line %q in\n%s", line, k.Tree())
		}
		time.Sleep(10 * time.Second)
		expect(poller, "running")

		// all for one: the others of the group take no messages either
		k.Crash(fetcher, errInjected)
		synctest.Wait()
		k.Crash(fetcher, errInjected)
		expect(fetcher, "restarting in 10s")
		expect(processor, "restarting in 10s Scripted")
		expect("launcher/default", "running")
		time.Sleep(10 * time.Second)
		expect(fetcher, "running")
		expect(processor, "busy Scripted")
	})
}

// A strategy that resumes leaves its mark, and no more.
func TestResumedActorRunsInTheTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testkit.Start(t, actors.Config{Logger: zerolog.Nop(), Strategy: deciding("poller", supervisor.Resume)})
		k.Crash("launcher/poller", errInjected)
		synctest.Wait()
		n := k.Tree().Find("launcher/poller")
		if n.State != actors.StateRunning || n.Restarts != 0 || n.LastFailure != errInjected.Error() {
			t.Errorf("%+v", n)
		}
	})
}

// Jobs fetched while the whole group waits for its restart run afterwards, and a
// quiet or a stop meanwhile finds them.
func TestJobsOfAGroupThatWaitsForItsRestart(t *testing.T) {
	for _, ending := range []string{"restart", "stop"} {
		t.Run(ending, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := script.New(t)
				k := testkit.Start(t, actors.Config{Registry: s.Registry(), Logger: zerolog.Nop(), Capsules: []actors.Capsule{{
					Concurrency: 2, Strategy: supervisor.AllForOne(supervisor.Spec{
						Intensity: 9, Period: time.Hour, Backoff: supervisor.Backoff{Min: 20 * time.Second},
					}),
				}}})
				k.Crash("launcher/default/processor-1", errInjected)
				synctest.Wait()
				push(k, 2, script.Slow(time.Second))
				k.Await("they run", func() bool { return k.Stats().Busy == 2 })
				k.Crash("launcher/default/processor-1", errInjected)
				synctest.Wait()
				push(k, 5, script.OK())
				time.Sleep(5 * time.Second)
				harness.Equal(t, "jobs processed while nobody takes messages, want the 2 that ran", k.Stats().Processed, 2)
				if ending == "stop" {
					began := time.Now()
					k.Stop()
					if took := time.Since(began); took > time.Second || size(t, k.Redis, "queue:default") != 5 {
						t.Errorf("the stop took %s, %d jobs are in the queue", took, size(t, k.Redis, "queue:default"))
					}
					return
				}
				k.Await("the rest", func() bool { return k.Stats().Processed == 7 })
			})
		})
	}
}
