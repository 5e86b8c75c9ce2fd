package actors_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
	"github.com/troupehq/troupe/testkit/script"
)

// stopPromise is what the README has platforms wait beyond the timeout.
const stopPromise = 8 * time.Second

// hangingFetcher is a fetcher whose calls named in hang do not return before the end
// of the test, whatever their context says.
type hangingFetcher struct {
	fetch.Fetcher
	hang    []string
	wedged  <-chan struct{} // from now on
	release <-chan struct{}
}

func (f hangingFetcher) call(name string) {
	select {
	case <-f.wedged:
		if slices.Contains(f.hang, name) {
			<-f.release
		}
	default:
	}
}

func (f hangingFetcher) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	f.call("Settle")
	return f.Fetcher.Settle(ctx, moves)
}

func (f hangingFetcher) Close(ctx context.Context) (int, error) {
	f.call("Close")
	return f.Fetcher.Close(ctx)
}

// Nothing gives way: the handlers are unresponsive, the calls of the fetchers, the
// callbacks and the subscribers do not return, the launcher waits for its
// strategy, Redis freezes at the last moment. The stop ends as promised.
func TestAStopWithEverythingWedgedEndsAsPromised(t *testing.T) {
	for name, hang := range map[string][]string{
		"Close":            {"Close"},
		"Settle and Close": {"Settle", "Close"},
		"only Redis":       nil,
	} {
		for _, timeout := range []time.Duration{time.Second, 25 * time.Second} {
			t.Run(name+" "+timeout.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { wedgedStop(t, hang, timeout) })
			})
		}
	}
}

func wedgedStop(t *testing.T, hang []string, timeout time.Duration) {
	s := script.New(t)
	mem := testkit.NewMemory(t)
	faults := chaos.NewProxy(t, mem.Options())
	// no listening connection: one that reconnects holds a lock meanwhile, which stops the bubble's clock
	faults.Add(chaos.Fault{Do: chaos.Effect{Refuse: "ERR on purpose"}, Mentions: "troupe:poller"})
	var log harness.Buffer
	release, wedged := make(chan struct{}), make(chan struct{})
	callbacks := []func(context.Context){func(context.Context) { <-release }}
	factory := func(e fetch.Env) (fetch.Fetcher, error) {
		f, err := fetch.NewReliable(e)
		return hangingFetcher{f, hang, wedged, release}, err
	}
	k := testkit.Start(t, actors.Config{
		Redis: faults.Client(), Registry: s.Registry(), Logger: zerolog.New(&log), Timeout: timeout,
		Strategy:    made(strategyFunc(func(actor.Supervisor, *actor.PID, any) { <-release })),
		On:          actors.Events{Quiet: callbacks, Shutdown: callbacks, Exit: callbacks, Beat: callbacks},
		Subscribers: []func(event.Event){func(event.Event) { <-release }},
		Capsules: []actors.Capsule{
			{Name: "a", Concurrency: 2, Fetch: factory, Queues: fetch.Strict{"default"}},
			{Name: "b", Concurrency: 2, Fetch: factory, Queues: fetch.Strict{"default", "other"}},
		},
	})
	push(k, 4, script.Step{Do: "unresponsive"})
	k.Await("all run", func() bool { return k.Stats().Busy == 4 })
	k.Crash("launcher/poller", errInjected)
	time.Sleep(2 * time.Second) // the strategy is asked, and does not answer
	began := time.Now()
	stopped := make(chan actors.DrainReport, 1)
	go func() { stopped <- k.Stop() }()
	time.Sleep(timeout - 100*time.Millisecond) // nobody has noticed yet that Redis is away
	close(wedged)
	faults.Pause()
	var r actors.DrainReport
	select {
	case r = <-stopped:
	case <-time.After(5 * time.Minute):
		t.Error("the stop does not end")
	}
	took := time.Since(began)
	t.Logf("timeout + %s", took-timeout)
	if took > timeout+stopPromise {
		t.Errorf("the stop took %s, %s more than the timeout, want at most %s", took, took-timeout, stopPromise)
	}
	if len(r.Left) != 4 || len(r.Abandoned) != 4 || len(r.Lost)+len(r.Requeued) != 0 {
		t.Errorf("drain report: %s", r)
	}
	if n := log.Count("the fetcher failed while leaving"); slices.Contains(hang, "Close") && n != 2 {
		t.Errorf("%d lines about two fetchers whose Close does not return:\n%s", n, log.String())
	}
	close(release)
	faults.Resume()
}
