package supervised

import (
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/strategy"
	"github.com/troupehq/troupe/supervisor"
)

var errBoom = errors.New("boom")

// launched is a root actor of a real system under strategy. It crashes of every
// error that it is sent.
type launched struct {
	sys    *actor.ActorSystem
	pid    *actor.PID
	mu     sync.Mutex
	starts int
	fatal  []error
}

func launch(t *testing.T, make func(fatal func(error)) actor.SupervisorStrategy) *launched {
	t.Helper()
	l := &launched{sys: silentSystem()}
	root := make(func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fatal = append(l.fatal, err)
	})
	props := actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			l.mu.Lock()
			l.starts++
			l.mu.Unlock()
		case error:
			panic(m)
		}
	}, actor.WithGuardian(root))
	var err error
	if l.pid, err = l.sys.Root.SpawnNamed(props, "launcher"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.sys.Root.Stop(l.pid)
		time.Sleep(2 * time.Second) // the library's dead-letter window
	})
	return l
}

func (l *launched) crash() {
	l.sys.Root.Send(l.pid, errBoom)
	time.Sleep(time.Millisecond) // in a bubble
	synctest.Wait()
}

func (l *launched) is() (starts, fatal int, alive bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, alive = l.sys.ProcessRegistry.Get(l.pid)
	return l.starts, len(l.fatal), alive
}

// At the root the library calls the strategy in the goroutine of the actor that
// has failed: a panic there ends the process, a Goexit the mailbox; its guardian
// panics when it is asked to escalate, or for its children. Each of these would
// take the whole test binary with it.
func TestNothingThatFailsAtTheRootEndsTheProcess(t *testing.T) {
	rooted := func(s func(supervisor.Spec) *supervisor.Strategy, spec supervisor.Spec) func(func(error)) actor.SupervisorStrategy {
		return func(fatal func(error)) actor.SupervisorStrategy {
			return &root{Strategy: strategy.Of(s(spec)), fatal: fatal}
		}
	}
	deciding := func(d func(supervisor.Failure) supervisor.Directive) supervisor.Spec {
		return supervisor.Spec{Intensity: 2, Period: time.Hour, Backoff: supervisor.Backoff{Min: -1}, Decide: d}
	}
	for name, tc := range map[string]struct {
		strategy   func(func(error)) actor.SupervisorStrategy
		subscriber func(any)
		starts     int // after one crash; then there are more than the budget allows
	}{
		"a spent budget": {strategy: func(f func(error)) actor.SupervisorStrategy {
			return Root(supervisor.Spec{Intensity: 2, Period: time.Hour, Backoff: supervisor.Backoff{Min: -1}}, f)
		}, starts: 2},
		"replacement": {strategy: func(f func(error)) actor.SupervisorStrategy {
			return Root(supervisor.Spec{Intensity: 2, Period: time.Hour, Backoff: supervisor.Backoff{Min: -1}, Replace: true}, f)
		}, starts: 2},
		"a decider that escalates":    {strategy: rooted(supervisor.OneForOne, deciding(func(supervisor.Failure) supervisor.Directive { return supervisor.Escalate })), starts: 1},
		"all for one":                 {strategy: rooted(supervisor.AllForOne, supervisor.Spec{Intensity: 2, Period: time.Hour, Backoff: supervisor.Backoff{Min: -1}}), starts: 2},
		"rest for one":                {strategy: rooted(supervisor.RestForOne, supervisor.Spec{Intensity: 2, Period: time.Hour, Backoff: supervisor.Backoff{Min: -1}}), starts: 2},
		"a decider that panics":       {strategy: rooted(supervisor.OneForOne, deciding(func(supervisor.Failure) supervisor.Directive { panic("decider") })), starts: 2},
		"a decider that ends":         {strategy: rooted(supervisor.OneForOne, deciding(func(supervisor.Failure) supervisor.Directive { runtime.Goexit(); return supervisor.Stop })), starts: 2},
		"a subscriber that panics":    {strategy: rooted(supervisor.OneForOne, supervisor.Spec{Intensity: 2, Period: time.Hour, Backoff: supervisor.Backoff{Min: -1}}), subscriber: func(any) { panic("subscriber") }, starts: 2},
		"a subscriber that ends":      {strategy: rooted(supervisor.OneForOne, supervisor.Spec{Intensity: 2, Period: time.Hour, Backoff: supervisor.Backoff{Min: -1}}), subscriber: func(any) { runtime.Goexit() }, starts: 2},
		"a strategy that has a fault": {strategy: func(f func(error)) actor.SupervisorStrategy { return &root{fatal: f} }, starts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := launch(t, tc.strategy)
				if tc.subscriber != nil {
					l.sys.EventStream.Subscribe(func(e any) {
						if _, ok := e.(*actor.SupervisorEvent); ok {
							tc.subscriber(e)
						}
					})
				}
				l.crash()
				starts, fatal, alive := l.is()
				if ends := tc.starts == 1; starts != tc.starts || alive == ends || (fatal == 1) != ends {
					t.Fatalf("after a crash: %d starts, fatal %d times, alive %v", starts, fatal, alive)
				}
				for range 4 {
					l.crash()
				}
				if starts, fatal, alive := l.is(); starts != max(1, 3*(tc.starts-1)) || fatal != 1 || alive {
					t.Errorf("in the end: %d starts, fatal %d times, alive %v", starts, fatal, alive)
				}
				if !errors.Is(l.fatal[0], errBoom) && name != "a strategy that has a fault" {
					t.Errorf("fatal: %v, want a chain that ends in the crash", l.fatal[0])
				}
			})
		})
	}
}

// A launcher that gave up is not restarted, whatever is left of the root's budget;
// and what is told has the stack of the panic below.
func TestALauncherThatGaveUpIsFatalAtOnce(t *testing.T) {
	for _, spec := range []string{"", "2 restarts in 1m0s"} {
		synctest.Test(t, func(t *testing.T) {
			l := launch(t, func(f func(error)) actor.SupervisorStrategy {
				return Root(supervisor.Spec{Intensity: 5, Period: time.Minute}, f)
			})
			var told []*actor.SupervisorEvent
			l.sys.EventStream.Subscribe(func(e any) {
				if e, ok := e.(*actor.SupervisorEvent); ok {
					told = append(told, e)
				}
			})
			l.sys.Root.Send(l.pid, supervisor.NewCrash(&supervisor.Exceeded{Path: "launcher/poller", Spec: spec, Cause: errBoom}, []byte("the stack")))
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if starts, fatal, alive := l.is(); starts != 1 || fatal != 1 || alive || !errors.Is(l.fatal[0], errBoom) {
				t.Errorf("%d starts, fatal %d times, alive %v", starts, fatal, alive)
			}
			if len(told) != 1 || told[0].Directive != actor.EscalateDirective || string(supervisor.NewCrash(told[0].Reason, nil).Stack) != "the stack" {
				t.Errorf("told %+v", told)
			}
		})
	}
}

func silentSystem() *actor.ActorSystem {
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))
}
