package strategy

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
)

const (
	p0 = "launcher/default/processor-0"
	p1 = "launcher/default/processor-1"
	p2 = "launcher/default/processor-2"
)

// A child that crashes while a restart of its group is on its way, or waits, is
// covered by it: one failure, one restart, as in OTP.
func TestCrashesThatAGroupRestartCoversAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		f := family(t, sys, 3)
		s := allForOne(supervisor.Spec{Intensity: 3, Period: time.Hour, Backoff: supervisor.Backoff{Min: time.Second}})
		together := []*supervisor.Crash{supervisor.NewCrash(errBoom, nil), supervisor.NewCrash(errBoom, nil), supervisor.NewCrash(errBoom, nil)}
		for i, c := range together {
			s.HandleFailure(sys, f, f.children[i], nil, c, nil)
		}
		if got := f.calls(); len(got) != 3 || s.budget.count(time.Now()) != 1 {
			t.Fatalf("three at once: asked %q, %d restarts spent", got, s.budget.count(time.Now()))
		}
		for i := range 3 { // the next life; the second restart waits
			s.HandleFailure(sys, f, f.children[i], nil, supervisor.NewCrash(errBoom, nil), nil)
		}
		if got := f.calls(); len(got) != 3 || s.budget.count(time.Now()) != 2 {
			t.Fatalf("three in the backoff: asked %q, %d restarts spent", got, s.budget.count(time.Now()))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := f.calls(); len(got) != 6 || f.escalated != nil {
			t.Errorf("after the backoff: asked %q, escalated %v", got, f.escalated)
		}
	})
}

// Alone a child crashes no more often than it is up: each crash has a restart of its own.
func TestEveryCrashOfAChildThatRestartsAloneIsARestart(t *testing.T) {
	sys := newSystem(t)
	f := family(t, sys, 2)
	s := oneForOne(supervisor.Spec{Intensity: 5, Period: time.Hour})
	for _, c := range []*supervisor.Crash{supervisor.NewCrash(errBoom, nil), supervisor.NewCrash(errBoom, nil)} {
		s.HandleFailure(sys, f, f.children[1], nil, c, nil)
	}
	if got := f.calls(); len(got) != 2 {
		t.Errorf("asked %q, want two restarts", got)
	}
}

func TestWaitingIsToldAndItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		var told []string
		began := time.Now()
		sys.EventStream.Subscribe(func(e any) {
			if w, ok := e.(*Waiting); ok {
				when := "at once"
				if !w.Until.IsZero() {
					when = w.Until.Sub(began).String()
				}
				told = append(told, w.Child.GetId()+" "+when)
			}
		})
		f := family(t, sys, 2)
		s := restForOne(supervisor.Spec{Intensity: 9, Period: time.Second, Backoff: supervisor.Backoff{Min: 5 * time.Second}})
		s.HandleFailure(sys, f, f.children[1], nil, supervisor.NewCrash(errBoom, nil), nil) // at once
		s.HandleFailure(sys, f, f.children[1], nil, supervisor.NewCrash(errBoom, nil), nil) // in 5 s
		time.Sleep(2 * time.Second)
		s.HandleFailure(sys, f, f.children[0], nil, supervisor.NewCrash(errBoom, nil), nil) // both in 10 s
		harness.EqualList(t, "told", told, []string{p1 + " 5s", p0 + " 12s", p1 + " 12s"})
		for _, want := range []int{1, 3} {
			time.Sleep(9 * time.Second)
			synctest.Wait()
			if got := f.calls(); len(got) != want {
				t.Errorf("asked %q, by a timer that was overtaken", got)
			}
		}
	})
}

// Replacement, seen from the supervisor: who is to be started, in which order,
// and when.
func TestReplaceStopsTheGroupAndNamesItsReplacements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		f := family(t, sys, 3)
		s := restForOne(supervisor.Spec{Intensity: 9, Period: time.Hour, Replace: true, Backoff: supervisor.Backoff{Min: 10 * time.Second}})
		expect := func(what string, got, want any) {
			t.Helper()
			if a, b := got.([]string), want.([]string); !slices.Equal(a, b) {
				t.Errorf("%s: %q, want %q", what, a, b)
			}
		}
		end := func(path string) bool {
			sys.Root.Stop(actor.NewPID(sys.Address(), path))
			synctest.Wait()
			return s.Ended(path)
		}
		if s.Ended(p0) {
			t.Error("a child that ended by itself is to be replaced")
		}

		s.HandleFailure(sys, f, f.children[1], nil, supervisor.NewCrash(errBoom, nil), nil) // at once
		expect("the last first", f.calls(), []string{"stop " + p2, "stop " + p1})
		if !end(p2) {
			t.Error("a replaced child is not told apart")
		}
		if paths, next := s.Due(time.Now()); paths != nil || !next.IsZero() {
			t.Errorf("%q are due before all have ended; next %s", paths, next)
		}
		if !end(p1) {
			t.Error("a replaced child is not told apart")
		}
		paths, _ := s.Due(time.Now())
		expect("started", paths, []string{p1, p2})
		if paths, _ := s.Due(time.Now()); paths != nil {
			t.Errorf("%q were due twice", paths)
		}

		f.children = append(f.children[:1], family2(t, sys, p1, p2)...)
		s.HandleFailure(sys, f, f.children[2], nil, supervisor.NewCrash(errBoom, nil), nil) // in 10 s
		end(p2)
		paths, next := s.Due(time.Now())
		expect("before the backoff", paths, []string(nil))
		harness.Equal(t, "next in", time.Until(next), 10*time.Second)
		time.Sleep(4 * time.Second)
		f.children = f.children[:2]
		s.HandleFailure(sys, f, f.children[0], nil, supervisor.NewCrash(errBoom, nil), nil) // all, in 20 s
		end(p1)
		end(p0)
		if _, next = s.Due(time.Now()); time.Until(next) != 20*time.Second {
			t.Errorf("next in %s, want 20s", time.Until(next))
		}
		time.Sleep(19 * time.Second)
		paths, _ = s.Due(time.Now())
		expect("after the wait of the first plan", paths, []string(nil))
		time.Sleep(time.Second)
		paths, _ = s.Due(time.Now())
		expect("all together, in their order", paths, []string{p0, p1, p2})

		f.children = family2(t, sys, p0)
		s.HandleFailure(sys, f, f.children[0], nil, supervisor.NewCrash(errBoom, nil), nil)
		s.Reset()
		if end(p0) {
			t.Error("a supervisor that has restarted still replaces what it had before")
		}
		if f.escalated != nil {
			t.Errorf("escalated: %v", f.escalated)
		}
	})
}

func family2(t *testing.T, sys *actor.ActorSystem, paths ...string) (pids []*actor.PID) {
	t.Helper()
	for _, path := range paths {
		pid, err := sys.Root.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return idler{} }), path)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// A supervisor of its own kind may start another actor under the name without
// asking; that one's failures count.
func TestNamesakeOfAReplacedChildIsNotCovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		f := family(t, sys, 1)
		s := oneForOne(supervisor.Spec{Replace: true})
		s.HandleFailure(sys, f, f.children[0], nil, supervisor.NewCrash(errBoom, nil), nil)
		sys.Root.Stop(f.children[0])
		synctest.Wait()
		f.children = family2(t, sys, p0)
		s.HandleFailure(sys, f, f.children[0], nil, supervisor.NewCrash(errBoom, nil), nil)
		if got := f.calls(); len(got) != 2 {
			t.Errorf("asked %q, want two stops", got)
		}
	})
}

func TestJobCrashIsReplacedAtOnceOutsideTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		f := family(t, sys, 2)
		s := allForOne(supervisor.Spec{Intensity: -1, Replace: true, Backoff: supervisor.Backoff{Min: time.Hour}})
		s.HandleFailure(sys, f, f.children[1], nil, supervisor.NewCrash(&supervisor.JobCrash{Class: "Bad", Err: errBoom}, nil), nil)
		if got := f.calls(); !slices.Equal(got, []string{"stop " + p1}) || f.escalated != nil {
			t.Fatalf("asked %q, escalated %v", got, f.escalated)
		}
		s.Ended(p1)
		if paths, _ := s.Due(time.Now()); !slices.Equal(paths, []string{p1}) {
			t.Errorf("due: %q", paths)
		}
	})
}
