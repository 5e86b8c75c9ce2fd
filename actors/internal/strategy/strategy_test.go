package strategy

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
)

func oneForOne(s supervisor.Spec) *Strategy  { return Of(supervisor.OneForOne(atOnce(s))) }
func allForOne(s supervisor.Spec) *Strategy  { return Of(supervisor.AllForOne(atOnce(s))) }
func restForOne(s supervisor.Spec) *Strategy { return Of(supervisor.RestForOne(atOnce(s))) }

// atOnce is s without the backoff that is the default.
func atOnce(s supervisor.Spec) supervisor.Spec {
	if s.Backoff == (supervisor.Backoff{}) {
		s.Backoff.Min = -1
	}
	return s
}

// fakeSupervisor records what a strategy asks of it.
type fakeSupervisor struct {
	mu        sync.Mutex
	children  []*actor.PID
	asked     []string
	escalated error
}

func (f *fakeSupervisor) note(verb string, pids []*actor.PID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range pids {
		f.asked = append(f.asked, verb+" "+p.GetId())
	}
}

func (f *fakeSupervisor) Children() []*actor.PID          { return f.children }
func (f *fakeSupervisor) RestartChildren(p ...*actor.PID) { f.note("restart", p) }
func (f *fakeSupervisor) StopChildren(p ...*actor.PID)    { f.note("stop", p) }
func (f *fakeSupervisor) ResumeChildren(p ...*actor.PID)  { f.note("resume", p) }
func (f *fakeSupervisor) EscalateFailure(reason, _ any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.escalated = supervisor.NewCrash(reason, nil).Reason
}

func (f *fakeSupervisor) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

func newSystem(t *testing.T) *actor.ActorSystem {
	t.Helper()
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))
}

// idler is an actor that exists, so that its name is known to the registry.
type idler struct{}

func (idler) Receive(actor.Context) {}

func family(t *testing.T, sys *actor.ActorSystem, n int) *fakeSupervisor {
	t.Helper()
	f := &fakeSupervisor{}
	for i := range n {
		pid, err := sys.Root.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return idler{} }), fmt.Sprintf("launcher/default/processor-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		f.children = append(f.children, pid)
	}
	return f
}

var errBoom = errors.New("boom")

func TestKindsRestartTheirGroup(t *testing.T) {
	for _, tc := range []struct {
		strategy *Strategy
		want     []string
	}{
		{oneForOne(supervisor.Spec{}), []string{"restart launcher/default/processor-1"}},
		{allForOne(supervisor.Spec{}), []string{"restart launcher/default/processor-0", "restart launcher/default/processor-1", "restart launcher/default/processor-2"}},
		{restForOne(supervisor.Spec{}), []string{"restart launcher/default/processor-1", "restart launcher/default/processor-2"}},
	} {
		t.Run(tc.strategy.Kind(), func(t *testing.T) {
			sys := newSystem(t)
			f := family(t, sys, 3)
			tc.strategy.HandleFailure(sys, f, f.children[1], nil, errBoom, nil)
			if got := f.calls(); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSpentBudgetEscalatesWithTheChainOfCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		f := family(t, sys, 2)
		s := oneForOne(supervisor.Spec{Intensity: 3, Period: time.Minute})
		for i := range 3 {
			s.HandleFailure(sys, f, f.children[i%2], nil, errBoom, nil)
			time.Sleep(time.Second)
		}
		if f.escalated != nil || len(f.calls()) != 3 {
			t.Fatalf("within the budget: asked %q, escalated %v", f.calls(), f.escalated)
		}
		s.HandleFailure(sys, f, f.children[0], nil, errBoom, nil)
		if !errors.Is(f.escalated, errBoom) {
			t.Fatalf("escalated %v, want a chain that ends in %v", f.escalated, errBoom)
		}
		if e, ok := errors.AsType[*supervisor.Exceeded](f.escalated); !ok || e.Restarts != 3 || e.Path != "launcher/default/processor-0" {
			t.Errorf("escalated %#v", f.escalated)
		}
		time.Sleep(time.Minute)
		f.escalated = nil
		s.HandleFailure(sys, f, f.children[0], nil, errBoom, nil)
		if f.escalated != nil {
			t.Errorf("the budget was not pruned after its period: %v", f.escalated)
		}
	})
}

func TestResetGivesAFreshBudget(t *testing.T) {
	sys := newSystem(t)
	f := family(t, sys, 1)
	s := oneForOne(supervisor.Spec{Intensity: 1, Period: time.Hour})
	s.HandleFailure(sys, f, f.children[0], nil, errBoom, nil)
	s.Reset()
	s.HandleFailure(sys, f, f.children[0], nil, errBoom, nil)
	if f.escalated != nil {
		t.Errorf("escalated: %v", f.escalated)
	}
}

func TestJobCrashNeverSpendsTheBudgetNorTouchesSiblings(t *testing.T) {
	sys := newSystem(t)
	f := family(t, sys, 3)
	s := allForOne(supervisor.Spec{Intensity: 1, Period: time.Hour, Backoff: supervisor.Backoff{Min: time.Hour}})
	for range 50 {
		s.HandleFailure(sys, f, f.children[1], nil, supervisor.NewCrash(&supervisor.JobCrash{Class: "Bad", Err: errBoom}, nil), nil)
	}
	if f.escalated != nil {
		t.Errorf("escalated: %v", f.escalated)
	}
	if got := f.calls(); len(got) != 50 || got[0] != "restart launcher/default/processor-1" {
		t.Errorf("asked %d times, first %q", len(got), got[0])
	}
}

func TestBackoffWaitsAndDoubles(t *testing.T) {
	b := supervisor.Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	want := []time.Duration{0, 0, 100, 200, 400, 800, 1000, 1000}
	for n, w := range want {
		if got := wait(b, n); got != w*time.Millisecond {
			t.Errorf("restart %d waits %s, want %s", n, got, w*time.Millisecond)
		}
	}
	harness.Equal(t, "a huge count waits", wait(supervisor.Backoff{Min: time.Second}, 1<<20), maxBackoff)
	for range 1000 {
		if got := wait(supervisor.Backoff{Min: time.Second, Jitter: 0.5}, 2); got < 500*time.Millisecond || got > time.Second {
			t.Fatalf("jitter of one half gave %s", got)
		}
	}
}

// A child that always crashes waits longer and longer, whatever the budget has
// forgotten meanwhile; and nobody else waits for it.
func TestEachChildHasABackoffOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		f := family(t, sys, 3)
		s := oneForOne(supervisor.Spec{Intensity: 20, Period: time.Minute, Backoff: supervisor.Backoff{Min: 100 * time.Millisecond, Max: 30 * time.Second}})
		waits := func(child int) time.Duration {
			t.Helper()
			began, before := time.Now(), len(f.calls())
			s.HandleFailure(sys, f, f.children[child], nil, supervisor.NewCrash(errBoom, nil), nil)
			for len(f.calls()) == before {
				if time.Since(began) > time.Hour {
					t.Fatal("no restart")
				}
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
			}
			return time.Since(began).Truncate(100 * time.Millisecond)
		}
		var got []time.Duration
		for range 15 {
			got = append(got, waits(0)/time.Millisecond)
		}
		want := []time.Duration{0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000, 30000, 30000, 30000}
		if !slices.Equal(got, want) {
			t.Errorf("waited %d ms\nwant   %d", got, want)
		}
		harness.Equal(t, "another child waited", waits(1), 0)
		time.Sleep(time.Minute) // it counts to the end of the time that it must be up
		harness.Equal(t, "after a minute it waited", waits(0), 30*time.Second)
		time.Sleep(time.Minute + time.Second)
		harness.Equal(t, "after more than a minute it waited", waits(0), 0)
	})
}

// What restarts together waits together.
func TestAGroupHasOneBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		f := family(t, sys, 2)
		s := allForOne(supervisor.Spec{Intensity: 20, Period: time.Minute, Backoff: supervisor.Backoff{Min: time.Second}})
		for i, want := range []int{2, 2, 4, 4, 4, 6} { // at once, after 1 s, after 2 s
			if i == 0 || i == 1 || i == 3 {
				s.HandleFailure(sys, f, f.children[i%2], nil, supervisor.NewCrash(errBoom, nil), nil)
			} else {
				time.Sleep(time.Second + time.Millisecond)
			}
			synctest.Wait()
			if got := len(f.calls()); got != want {
				t.Errorf("step %d: %d restarts, want %d", i, got, want)
			}
		}
	})
}

func TestBackoffDoesNotRestartANamesake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		f := family(t, sys, 1)
		s := oneForOne(supervisor.Spec{Intensity: 10, Period: time.Minute, Backoff: supervisor.Backoff{Min: time.Second}})
		s.HandleFailure(sys, f, f.children[0], nil, errBoom, nil) // immediate
		s.HandleFailure(sys, f, f.children[0], nil, errBoom, nil) // after 1 s
		sys.Root.Stop(f.children[0])
		synctest.Wait()
		family(t, sys, 1) // the name is taken by another actor now
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := f.calls(); len(got) != 1 {
			t.Errorf("asked %q, want the immediate restart only", got)
		}
	})
}

func TestDeciderThatPanicsOrHangsIsOverruled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		release := make(chan struct{})
		for name, decide := range map[string]func(supervisor.Failure) supervisor.Directive{
			"panics": func(supervisor.Failure) supervisor.Directive { panic("decider") },
			"hangs":  func(supervisor.Failure) supervisor.Directive { <-release; return supervisor.Stop },
			"lies":   func(supervisor.Failure) supervisor.Directive { return supervisor.Directive(99) },
		} {
			f := &fakeSupervisor{}
			child := actor.NewPID(sys.Address(), "launcher/default/processor-0")
			oneForOne(supervisor.Spec{Decide: decide}).HandleFailure(sys, f, child, nil, errBoom, nil)
			if got := f.calls(); !slices.Equal(got, []string{"restart launcher/default/processor-0"}) {
				t.Errorf("a decider that %s: asked %q", name, got)
			}
		}
		close(release)
	})
}

func TestDirectivesAndTheFailureThatADeciderSees(t *testing.T) {
	sys := newSystem(t)
	for d, want := range map[supervisor.Directive]string{
		supervisor.Stop:   "stop launcher/default/processor-0",
		supervisor.Resume: "resume launcher/default/processor-0",
	} {
		f := family(t, newSystem(t), 1)
		var seen supervisor.Failure
		s := oneForOne(supervisor.Spec{Decide: func(x supervisor.Failure) supervisor.Directive { seen = x; return d }})
		s.HandleFailure(sys, f, f.children[0], nil, supervisor.NewCrash("a value", []byte("stack")), nil)
		harness.EqualList(t, d.String()+": asked", f.calls(), []string{want})
		if seen.Role != "processor" || seen.Capsule != "default" || string(seen.Stack) != "stack" || seen.Reason == nil {
			t.Errorf("the decider saw %+v", seen)
		}
	}
}

func TestEscalatedJobCrashSpendsTheBudgetOfTheNextSupervisor(t *testing.T) {
	sys := newSystem(t)
	f := family(t, sys, 1)
	s := oneForOne(supervisor.Spec{Intensity: 2, Period: time.Hour})
	for range 3 {
		cause := &supervisor.Exceeded{Path: "launcher/default/processor-0", Spec: "a budget", Cause: &supervisor.JobCrash{Class: "Bad", Err: errBoom}}
		s.HandleFailure(sys, f, f.children[0], nil, &supervisor.Crash{Reason: cause}, nil)
	}
	if !errors.Is(f.escalated, errBoom) {
		t.Errorf("escalated %v after three failures, two are allowed", f.escalated)
	}
}
