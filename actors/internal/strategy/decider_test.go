package strategy

import (
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
)

const processor = "launcher/default/processor-0"

func TestDeciderThatFailsIsOverruledAndReported(t *testing.T) {
	for name, tc := range map[string]struct {
		decide  func(supervisor.Failure) supervisor.Directive
		is      func(error) bool
		takes   time.Duration
		release bool
	}{
		"panics": {decide: func(supervisor.Failure) supervisor.Directive { panic("decider") }, is: func(err error) bool {
			e, ok := errors.AsType[*troupe.PanicError](err)
			return ok && e.Value == "decider" && strings.Contains(string(e.Stack), "decider_test.go")
		}},
		"ends its goroutine": {decide: func(supervisor.Failure) supervisor.Directive { runtime.Goexit(); return supervisor.Stop }, is: func(err error) bool {
			e, ok := errors.AsType[*troupe.PanicError](err)
			return ok && e.Goexit
		}},
		"answers nonsense": {decide: func(supervisor.Failure) supervisor.Directive { return 99 }, is: func(err error) bool {
			return err.Error() == "the decider answered directive(99), expected restart, stop, resume or escalate"
		}},
		// in a bubble: each case is run in one
		"is slow": {decide: func(supervisor.Failure) supervisor.Directive { time.Sleep(time.Minute); return supervisor.Stop }, takes: time.Second, is: func(err error) bool {
			return errors.Is(err, errDeciderSlow)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := newSystem(t)
				var overruled []error
				sys.EventStream.Subscribe(func(e any) {
					if o, ok := e.(*Overruled); ok {
						overruled = append(overruled, o.Err)
					}
				})
				f := &fakeSupervisor{}
				began := time.Now()
				oneForOne(supervisor.Spec{Decide: tc.decide}).HandleFailure(sys, f, actor.NewPID(sys.Address(), processor), nil, errBoom, nil)
				harness.Equal(t, "took", time.Since(began), tc.takes)
				harness.EqualList(t, "asked", f.calls(), []string{"restart " + processor})
				if len(overruled) != 1 || !tc.is(overruled[0]) {
					t.Errorf("overruled for %v", overruled)
				}
				time.Sleep(time.Hour) // the slow one returns
			})
		})
	}
}

// One second, not one for each failure; and one goroutine.
func TestDeciderThatHangsIsNotAskedAgainBeforeItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		release := make(chan struct{})
		var asked atomic.Int64
		s := oneForOne(supervisor.Spec{Intensity: 100, Period: time.Hour, Decide: func(supervisor.Failure) supervisor.Directive {
			if asked.Add(1) == 1 {
				<-release
			}
			return supervisor.Stop
		}})
		f := &fakeSupervisor{}
		began := time.Now()
		for range 5 {
			s.HandleFailure(sys, f, actor.NewPID(sys.Address(), processor), nil, errBoom, nil)
		}
		if took := time.Since(began); took != time.Second || asked.Load() != 1 {
			t.Errorf("asked %d times, took %s", asked.Load(), took)
		}
		close(release)
		synctest.Wait()
		s.HandleFailure(sys, f, actor.NewPID(sys.Address(), processor), nil, errBoom, nil)
		if got := f.calls(); len(got) != 6 || got[4] != "restart "+processor || got[5] != "stop "+processor {
			t.Errorf("asked of the supervisor: %q", got)
		}
	})
}

// The same class on many processors is a bad job; many classes on one are a sick
// processor.
func TestDeciderTellsABadJobFromABadActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		f := family(t, sys, 3)
		var last supervisor.Failure
		s := oneForOne(supervisor.Spec{Intensity: 50, Period: time.Minute, Decide: func(f supervisor.Failure) supervisor.Directive { last = f; return supervisor.Restart }})
		crash := func(i int, reason error) supervisor.Failure {
			s.HandleFailure(sys, f, f.children[i], nil, supervisor.NewCrash(reason, nil), nil)
			return last
		}
		for i, class := range []string{"Bad", "Bad", "Bad", "Other"} {
			got := crash(i%3, &supervisor.JobCrash{Class: class, Err: errBoom})
			wantClass, wantActor := i, 0
			if i == 3 {
				wantClass, wantActor = 0, 1 // its first of this class, the second on processor 0
			}
			if got.JobCrashes != wantClass || got.ActorCrashes != wantActor || got.Job.Class != class || got.Restarts != 0 {
				t.Errorf("crash %d: %+v", i, got)
			}
		}
		if got := crash(0, errBoom); got.JobCrashes != 0 || got.ActorCrashes != 2 || got.Job != nil {
			t.Errorf("the actor's own crash: %+v", got)
		}
		time.Sleep(time.Minute + 1)
		if got := crash(0, &supervisor.JobCrash{Class: "Bad", Err: errBoom}); got.JobCrashes != 0 || got.ActorCrashes != 0 {
			t.Errorf("a period later: %+v", got)
		}
		for range 3 * tallyMax {
			crash(0, &supervisor.JobCrash{Class: "Bad", Err: errBoom})
		}
		if last.JobCrashes != tallyMax || len(s.tally.times["class Bad"]) != tallyMax {
			t.Errorf("counted %d, kept %d, want %d", last.JobCrashes, len(s.tally.times["class Bad"]), tallyMax)
		}
	})
}

// Resumed, it would go on with its failed child suspended for ever.
func TestSupervisorThatGaveUpIsRestartedNotResumed(t *testing.T) {
	sys := newSystem(t)
	f := family(t, sys, 1)
	s := oneForOne(supervisor.Spec{Decide: func(supervisor.Failure) supervisor.Directive { return supervisor.Resume }})
	s.HandleFailure(sys, f, f.children[0], nil, &supervisor.Exceeded{Path: "x", Cause: errBoom}, nil)
	harness.EqualList(t, "asked", f.calls(), []string{"restart " + processor})
}
