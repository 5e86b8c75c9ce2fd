package actors_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

var errInjected = errors.New("injected crash")

func TestPanickingJobIsSettledThenItsProcessorRestarts(t *testing.T) {
	for _, step := range []string{"panic", "goexit"} {
		t.Run(step, func(t *testing.T) {
			s := script.New(t)
			rdb := testkit.Redis(t)
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 1}},
			})
			// far more than the restart budget allows: bad jobs never spend it
			push(k, 60, script.Step{Do: step})
			ok := push(k, 1, script.OK())[0]
			k.Await("the job after the bad ones", func() bool { return s.Runs()[ok] > 0 })
			k.Await("60 restarts", func() bool {
				tree := k.Tree()
				n := tree.Find("launcher/default/processor-0")
				return n.Restarts == 60 && n.State == actors.StateIdle
			})
			harness.Equal(t, "retries", size(t, rdb, "retry"), 60)
			harness.Equal(t, "the manager restarted times", k.Tree().Find("launcher/default").Restarts, 0)
		})
	}
}

func TestPanickingJobAfterQuietEndsItsProcessor(t *testing.T) {
	s := script.New(t)
	rdb := testkit.Redis(t)
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 1}}})
	jid := k.Push(script.Slow(100 * time.Millisecond))
	k.Await("the job runs", func() bool { return s.Runs()[jid] > 0 })
	k.Quiet()
	k.Await("an ended processor", func() bool {
		tree := k.Tree()
		n := tree.Find("launcher/default/processor-0")
		return n.State == actors.StateStopped
	})
	if k.Tree().Find("launcher/heartbeat").Path == "" {
		t.Error("the heartbeat has gone")
	}
}

// Each actor is crashed again and again while jobs flow. Every job must run
// exactly once (nothing is lost, nothing runs twice in a live process), and never
// more at once than the concurrency.
func TestCrashingAnyActorUnderLoadLosesNothing(t *testing.T) {
	for _, path := range []string{
		"launcher", "launcher/heartbeat", "launcher/poller", "launcher/rescuer",
		"launcher/default", "launcher/default/fetcher", "launcher/default/processor-0",
	} {
		t.Run(path, func(t *testing.T) {
			s := script.New(t)
			rdb := testkit.Redis(t)
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: s.Registry(),
				Capsules: []actors.Capsule{{Concurrency: 4}, {Name: "other", Concurrency: 2, Queues: fetch.Strict{"other"}}},
			})
			const n = 400
			var jids []string
			for i := range n {
				queue := "default"
				if i%4 == 0 {
					queue = "other"
				}
				jids = append(jids, k.Push(script.Slow(2*time.Millisecond), client.Queue(queue)))
			}
			crashes := 4
			if path == "launcher" {
				crashes = 3
			}
			for i := range crashes {
				k.Await("some progress", func() bool { return int(k.Stats().Processed) >= (i+1)*n/(crashes+2) })
				k.Await("the actor is up", func() bool {
					tree := k.Tree()
					a := tree.Find(path)
					return a.State == actors.StateRunning || a.State == actors.StateIdle || a.State == actors.StateBusy
				})
				k.Crash(path, fmt.Errorf("%w %d", errInjected, i))
			}
			k.Await("all done", func() bool { return k.Stats().Processed >= n && inProgress(t, rdb) == 0 })
			k.Await("every crash was followed by a restart", func() bool {
				tree := k.Tree()
				return tree.Find(path).Restarts == crashes
			})
			r := k.Stop()
			runs, most := s.Runs(), s.Most()
			for _, jid := range jids {
				if runs[jid] != 1 {
					t.Errorf("job %s ran %d times", jid, runs[jid])
				}
			}
			if most > 6 {
				t.Errorf("%d jobs at once, want at most 6", most)
			}
			if len(r.Left)+len(r.Requeued) != 0 {
				t.Errorf("drain report: %s", r)
			}
			if err := k.Err(); err != nil {
				t.Errorf("the daemon gave up: %v", err)
			}
		})
	}
}

// In a bubble: the actor must crash while all four jobs run.
func TestCrashingActorsWhileStoppingStillSettlesEachJobOnce(t *testing.T) {
	for _, path := range []string{"launcher", "launcher/default", "launcher/default/fetcher", "launcher/default/processor-1", "launcher/heartbeat"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := script.New(t)
				rdb := testkit.NewMemory(t).Client
				k := testkit.Start(t, actors.Config{
					Redis: rdb, Registry: s.Registry(), Timeout: 500 * time.Millisecond, Grace: 100 * time.Millisecond,
					Capsules: []actors.Capsule{{Concurrency: 4}},
				})
				slow := push(k, 2, script.Slow(100*time.Millisecond))
				unresponsive := push(k, 2, script.Step{Do: "unresponsive"})
				waiting := push(k, 20, script.OK())
				k.Await("four run", func() bool { return k.Stats().Busy == 4 })
				done := make(chan actors.DrainReport)
				go func() { done <- k.Stop() }()
				k.Await("stopping", func() bool { return k.Stats().Quiet })
				_ = k.Daemon.Faults().Crash(path, errInjected) // it may have ended already
				r := <-done
				s.Release()
				if len(r.Requeued) != 2 || len(r.Abandoned) != 2 || len(r.Left) != 0 {
					t.Errorf("drain report: %s", r)
				}
				runs := s.Runs()
				for _, jid := range slow {
					if runs[jid] != 1 {
						t.Errorf("slow job %s ran %d times", jid, runs[jid])
					}
				}
				if got, want := size(t, rdb, "queue:default"), len(unresponsive)+len(waiting); got != want {
					t.Errorf("%d jobs in the queue, want %d", got, want)
				}
				harness.Equal(t, "jobs left in progress", inProgress(t, rdb), 0)
			})
		})
	}
}

func TestCrashLoopOfAnActorEndsInAnOrderlyHardStop(t *testing.T) {
	s := script.New(t)
	rdb := testkit.Redis(t)
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: s.Registry(), Grace: 100 * time.Millisecond,
		Capsules: []actors.Capsule{{Concurrency: 2}},
	})
	jid := push(k, 1, script.Hang())[0]
	k.Await("the job runs", func() bool { return s.Runs()[jid] > 0 })
	for i := 0; k.Err() == nil; i++ {
		if i > 10_000 {
			t.Fatalf("never gave up\n%s", k.Tree())
		}
		_ = k.Daemon.Faults().Crash("launcher", errInjected)
		time.Sleep(time.Millisecond) // the next crash must meet the next incarnation
	}
	<-k.Done()
	if !errors.Is(k.Err(), errInjected) {
		t.Errorf("the reason is %v, want a chain that ends in the crash", k.Err())
	}
	harness.Equal(t, "jobs requeued", rdb.LLen(ctx, "queue:default").Val(), 1)
}
