package actors_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// slowly restarts what fails, and takes so long to decide that all that panics at
// the same time has panicked by then.
func slowly() *supervisor.Strategy {
	return supervisor.OneForOne(supervisor.Spec{Decide: func(supervisor.Failure) supervisor.Directive {
		time.Sleep(100 * time.Millisecond)
		return supervisor.Restart
	}})
}

// requireUp fails the test if an actor does not run, or one that wants does not
// name has restarted, and then if jobs are not run.
func requireUp(t *testing.T, k *testkit.Kit, s *script.Jobs, wants map[string]int) {
	t.Helper()
	time.Sleep(time.Minute) // the longest backoff is over
	synctest.Wait()
	for _, n := range k.Tree() {
		if up := n.State == actors.StateRunning || n.State == actors.StateIdle || n.State == actors.StateBusy; !up || n.Restarts != wants[n.Path] {
			t.Errorf("%s is %s after %d restarts, want %d: %s", n.Path, n.State, n.Restarts, wants[n.Path], n.LastFailure)
		}
	}
	if t.Failed() {
		return // no job would be run
	}
	for _, jid := range push(k, 20, script.OK()) {
		k.Await("twenty more jobs", func() bool { return s.Ended(jid) })
	}
}

// panickingHook is a hook of a logger that panics at its first few lines with
// this text.
type panickingHook struct {
	text string
	left *atomic.Int64
}

func (h panickingHook) Run(_ *zerolog.Event, _ zerolog.Level, text string) {
	if text == h.text && h.left.Add(-1) >= 0 {
		panic("a log hook")
	}
}

// Two jobs of one slot fail, and the logger panics at the line of each: both
// panics are on their way to one processor, which restarts once and goes on.
func TestTwoPanicsForOneProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		var log harness.Buffer
		left := new(atomic.Int64)
		left.Store(2)
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Logger: zerolog.New(&log).Hook(panickingHook{"job failed", left}),
			Capsules: []actors.Capsule{{Concurrency: 1, Strategy: slowly()}},
		})
		push(k, 2, script.Fail())
		k.Await("both are stored", func() bool { return size(t, k.Redis, "retry") == 2 })
		requireUp(t, k, s, map[string]int{"launcher/default/processor-0": 1})
		if n := log.Count("panic: a log hook"); n != 2 || left.Load() > 0 {
			t.Errorf("%d lines about two panics:\n%s", n, log.String())
		}
	})
}

// togetherFetcher panics in a Take with acks, which the settler makes, and in the Wait of
// the fetch goroutine that is under way meanwhile, once.
type togetherFetcher struct {
	fetch.Fetcher
	waits *atomic.Int64 // under way
	taken chan struct{} // closed by the Take that panics
	panic *atomic.Int64 // how many have
}

func (f togetherFetcher) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if len(acks) > 0 && f.waits.Load() > 0 && f.panic.CompareAndSwap(0, 1) {
		close(f.taken)
		panic("a Take of a third party")
	}
	return f.Fetcher.Take(ctx, n, acks)
}

func (f togetherFetcher) Wait(ctx context.Context, d time.Duration) error {
	f.waits.Add(1)
	defer f.waits.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-f.taken:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := f.Fetcher.Wait(ctx, d)
	if f.panic.CompareAndSwap(1, 2) {
		panic("a Wait of a third party")
	}
	return err
}

func TestTakeAndWaitPanicTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		var log harness.Buffer
		together := togetherFetcher{waits: new(atomic.Int64), taken: make(chan struct{}), panic: new(atomic.Int64)}
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Logger: zerolog.New(&log),
			Capsules: []actors.Capsule{{Concurrency: 2, Strategy: slowly(), Fetch: func(e fetch.Env) (fetch.Fetcher, error) {
				f, err := fetch.NewReliable(e)
				together.Fetcher = f
				return together, err
			}}},
		})
		push(k, 1, script.Slow(time.Second)) // beside it the other slot waits for work
		k.Await("both panics", func() bool { return together.panic.Load() == 2 })
		// The settler's panic is the manager's. That of the Wait is the fetcher's: it restarts of
		// it before the manager does, or the manager's restart has answered it.
		time.Sleep(time.Minute)
		synctest.Wait()
		fetcher := k.Tree().Find("launcher/default/fetcher").Restarts
		if fetcher > 2 {
			t.Errorf("the fetcher has restarted %d times", fetcher)
		}
		requireUp(t, k, s, map[string]int{
			"launcher/default": 1, "launcher/default/fetcher": max(1, fetcher), "launcher/default/processor-0": 1, "launcher/default/processor-1": 1,
		})
		for _, of := range []string{"a Take", "a Wait"} {
			if n := log.Count("panic: " + of + " of a third party"); n != 1 {
				t.Errorf("%d lines about the panic of %s:\n%s", n, of, log.String())
			}
		}
	})
}

// lateFetcher panics in a Take once release is closed.
type lateFetcher struct {
	fetch.Fetcher
	first   *atomic.Bool
	release chan struct{}
}

func (f lateFetcher) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if f.first.CompareAndSwap(false, true) {
		<-f.release
		panic("a Take of a third party")
	}
	return f.Fetcher.Take(ctx, n, acks)
}

// A restart answers no panic that comes after it, though the goroutine is one of
// the incarnation before.
func TestAPanicAfterTheRestartIsARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		late := lateFetcher{first: new(atomic.Bool), release: make(chan struct{})}
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Logger: zerolog.Nop(),
			Capsules: []actors.Capsule{{Concurrency: 2, Fetch: func(e fetch.Env) (fetch.Fetcher, error) {
				f, err := fetch.NewReliable(e)
				late.Fetcher = f
				return late, err
			}}},
		})
		k.Await("the Take", late.first.Load)
		k.Crash("launcher/default/fetcher", errInjected)
		k.Await("the restart", func() bool { return k.Tree().Find("launcher/default/fetcher").Restarts == 1 })
		close(late.release)
		requireUp(t, k, s, map[string]int{"launcher/default/fetcher": 2})
	})
}

// settleFetcher panics in a Settle when it is told to.
type settleFetcher struct {
	fetch.Fetcher
	panics *atomic.Int64 // so many
}

func (f settleFetcher) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	if f.panics.Add(-1) >= 0 {
		panic("a Settle of a third party")
	}
	return f.Fetcher.Settle(ctx, moves)
}

// A Settle panics while the manager, whose panic it is, waits for its restart.
func TestSettlePanicsWhileTheManagerWaits(t *testing.T) {
	for name, replace := range map[string]bool{"restart": false, "replacement": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { settlePanics(t, replace) }) })
	}
}

func settlePanics(t *testing.T, replace bool) {
	s := script.New(t)
	registry := s.Registry()
	troupe.HandleClass(registry, "LateFail", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
		time.Sleep(5 * time.Second)
		return errInjected
	}))
	var log harness.Buffer
	panics := new(atomic.Int64)
	k := testkit.Start(t, actors.Config{
		Registry: registry, Logger: zerolog.New(&log),
		Strategy: supervisor.OneForOne(supervisor.Spec{Replace: replace, Backoff: supervisor.Backoff{Min: 20 * time.Second}}),
		Capsules: []actors.Capsule{{Concurrency: 2, Fetch: func(e fetch.Env) (fetch.Fetcher, error) {
			f, err := fetch.NewReliable(e)
			return settleFetcher{f, panics}, err
		}}},
	})
	const manager = "launcher/default"
	k.Crash(manager, errInjected) // is restarted at once
	k.Await("the first restart", func() bool { return k.Tree().Find(manager).Restarts == 1 })
	k.Await("idle launcher/default/processor-1", inState(k, "launcher/default/processor-1", actors.StateIdle))
	k.PushClass("LateFail", nil)
	k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
	k.Crash(manager, errInjected)
	k.Await("restarting "+manager, inState(k, manager, actors.StateRestarting))
	panics.Store(1)
	k.Await("the panic, and the job stored after it", func() bool { return panics.Load() < 0 && size(t, k.Redis, "retry") == 1 })
	if n := k.Tree().Find(manager); n.State != actors.StateRestarting {
		t.Errorf("the manager is %s, want it to wait still", n.State)
	}
	wants := map[string]int{manager: 2, "launcher/default/fetcher": 2}
	for _, p := range []string{"/processor-0", "/processor-1"} {
		wants[manager+p] = 2
	}
	requireUp(t, k, s, wants)
	if n := log.Count("panic: a Settle of a third party"); n != 1 {
		t.Errorf("%d lines about one panic:\n%s", n, log.String())
	}
}

// Crashes that were made beforehand are raised when they arrive: each is one.
func TestEveryInjectedCrashIsARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, path := range []string{"launcher/default/processor-1", "launcher/default/fetcher", "launcher/poller"} {
			s := script.New(t)
			k := testkit.Start(t, actors.Config{
				Registry: s.Registry(), Logger: zerolog.Nop(),
				Capsules: []actors.Capsule{{Concurrency: 2}},
			})
			first, second := supervisor.NewCrash(errors.New("first"), nil), supervisor.NewCrash(errors.New("second"), nil)
			k.Crash(path, first)
			k.Crash(path, second)
			requireUp(t, k, s, map[string]int{path: 2})
		}
	})
}
