package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// api is what jobs of class Call call: it takes 100 ms, and fails until up. A call is its number and when it began.
type api struct {
	mu    sync.Mutex
	up    time.Time
	began []time.Time
	calls []string
	done  map[string]int
	fail  func() error
}

var errAPIDown = errors.New("502")

func (a *api) handle(r *troupe.Registry, limits ...troupe.Limit) {
	a.done = map[string]int{}
	troupe.HandleClass(r, "Call", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		a.mu.Lock()
		a.began, a.calls = append(a.began, time.Now()), append(a.calls, string(p.Args()))
		a.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
		a.mu.Lock()
		defer a.mu.Unlock()
		if time.Now().Before(a.up) {
			if a.fail != nil {
				return a.fail()
			}
			return troupe.RetryExactly(5*time.Minute, errAPIDown)
		}
		a.done[string(p.Args())]++
		return nil
	}), troupe.Options{Limits: limits})
}

// between counts the calls that begin in [from, to).
func (a *api) between(from, to time.Time) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.began {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// count is how many calls have begun.
func (a *api) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.calls)
}

func (a *api) allDone(n int) func() bool {
	return func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.done) == n
	}
}

func pushCalls(t *testing.T, mem *testkit.Server, n int) {
	t.Helper()
	for i := range n {
		_, err := client.New(mem.Client).PushClass(ctx, "Call", []any{i})
		harness.OK(t, err)
		time.Sleep(time.Millisecond) // in a bubble: each has an age of its own
	}
}

// An API that is down for a minute gets so many calls that fail, and then one for each rest, from all processes together: of limits of
// each kind. When it is back the others are let in, in their order, and every job is done once.
func TestABreakerRestsAndProbes(t *testing.T) {
	const jobs, failures, rest = 60, 3, 10 * time.Second
	for name, l := range map[string]troupe.Limit{
		"alone": {}, "at once": {AtOnce: 2}, "a rate": {Rate: 10}, "beside another": {AtOnce: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := testkit.NewMemory(t)
				l.Name, l.Breaker = "api", &troupe.Breaker{Failures: failures, Rest: rest}
				limits := []troupe.Limit{l}
				if name == "beside another" {
					limits = []troupe.Limit{{Name: "wide", AtOnce: 3}, l}
				}
				var a api
				var log harness.Buffer
				var kits []*testkit.Kit
				var mu sync.Mutex
				var told []event.Event
				began := time.Now()
				a.up = began.Add(time.Minute)
				for range 2 {
					var r troupe.Registry
					a.handle(&r, limits...)
					k := testkit.Start(t, actors.Config{
						Redis: mem.Client, Registry: &r, Logger: zerolog.New(&log), Capsules: []actors.Capsule{{Concurrency: 2}},
						Subscribers: []func(event.Event){func(e event.Event) {
							switch e.(type) {
							case event.BreakerOpened, event.BreakerClosed:
								mu.Lock()
								told = append(told, e)
								mu.Unlock()
							}
						}},
					})
					kits = append(kits, k)
				}
				pushCalls(t, mem, jobs)
				kits[0].Await("it is open", func() bool { return mem.Client.HGet(ctx, keys.Rest("troupe:", "api"), "ends").Val() != "" })
				opened := time.Now()
				if n := a.between(began, opened); n < failures || n > failures+3 { // those that run
					t.Errorf("%d calls until it has opened", n)
				}
				time.Sleep(time.Until(a.up))
				synctest.Wait()
				// Each probe takes 100 ms, and the rest begins anew when it has failed. It is let in when the leader looks.
				probes := a.between(opened, a.up)
				if time.Until(a.up) > 0 || probes < 4 || probes > 5 {
					t.Errorf("%d probes in %s", probes, a.up.Sub(opened))
				}
				a.mu.Lock()
				for i := len(a.began) - probes; i < len(a.began); i++ {
					if d := a.began[i].Sub(a.began[i-1]); d < rest || d > rest+200*time.Millisecond {
						t.Errorf("probe %s after %s, want %s and a moment", a.calls[i], d, rest)
					}
				}
				failed := len(a.calls)
				a.mu.Unlock()
				kits[0].Await("all that have not failed are done", a.allDone(jobs-failed))
				if d := time.Since(a.up); d > rest+8*time.Second {
					t.Errorf("they are done %s after it is up", d)
				}
				var last int
				const most = 4 // run
				for i, call := range a.calls[failed:] {
					var n int
					_, _ = fmt.Sscanf(call, "[%d]", &n)
					if n < last-most {
						t.Errorf("%d runs as number %d, behind %d", n, i, last)
					}
					last = max(last, n)
				}
				time.Sleep(5 * time.Minute)
				kits[0].Await("all are done", a.allDone(jobs))
				for _, k := range kits {
					k.Stop()
				}
				for call, n := range a.done {
					harness.Equal(t, "done "+call, n, 1)
				}
				var kinds []string
				for _, e := range told {
					switch e := e.(type) {
					case event.BreakerOpened:
						kinds = append(kinds, fmt.Sprintf("opened %v %s", e.Again, e.Rule))
					case event.BreakerClosed:
						kinds = append(kinds, "closed "+e.Rule)
					}
				}
				harness.Equal(t, "events", strings.Join(kinds, ", "), "opened false api"+strings.Repeat(", opened true api", probes)+", closed api")
				harness.Equal(t, "lines of the log", log.Count("the breaker of a limit"), probes+2)
				harness.Equal(t, "keys left", fmt.Sprint(mem.Client.Keys(ctx, "troupe:rest*").Val(), mem.Client.Keys(ctx, "troupe:held*").Val(), mem.Client.Keys(ctx, "troupe:slots*").Val()), "[] [] []")
			})
		})
	}
}

// The leader, which waits for a later look, is told of a rest that ends before that.
func TestARestEndsBeforeTheNextLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var a api
		a.handle(&r, troupe.Limit{Name: "api", AtOnce: 1, Breaker: &troupe.Breaker{Failures: 1, Rest: time.Second}})
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 4}}})
		a.up = time.Now().Add(150 * time.Millisecond)
		pushCalls(t, mem, 2)
		k.Await("both begin", func() bool { return a.count() == 2 })
		if after := a.began[1].Sub(a.began[0]); after < 1100*time.Millisecond || after > 1200*time.Millisecond {
			t.Errorf("the probe begins %v after the call that has failed in 100ms, want a rest of 1s between", after)
		}
		k.Stop()
	})
}

// What is no failure of the API opens nothing: verdicts on jobs, parks, what Counts passes over, and a row that success breaks. What
// hangs until its time-out opens it, also if it ignores its context.
func TestWhatOpensABreaker(t *testing.T) {
	errOther := errors.New("422")
	for name, c := range map[string]struct {
		run   func(ctx context.Context, n int) error
		opens bool
	}{
		"errors":   {func(context.Context, int) error { return errAPIDown }, true},
		"panics":   {func(context.Context, int) error { panic("no answer") }, true},
		"time-out": {func(ctx context.Context, _ int) error { <-ctx.Done(); return context.Cause(ctx) }, true},
		"hangs":    {func(context.Context, int) error { time.Sleep(5 * time.Minute); return nil }, true}, // in a bubble
		"kills":    {func(context.Context, int) error { return troupe.Kill(errAPIDown) }, false},
		"discards": {func(context.Context, int) error { return troupe.Discard(errAPIDown) }, false},
		"parks":    {func(context.Context, int) error { return troupe.Park(time.Hour, errAPIDown) }, false},
		"others":   {func(context.Context, int) error { return errOther }, false},
		"done":     {func(context.Context, int) error { return nil }, false},
		"one in two": {func(_ context.Context, n int) error {
			if n%2 == 0 {
				return errAPIDown
			}
			return nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := testkit.NewMemory(t)
				var r troupe.Registry
				var n atomic.Int64
				troupe.HandleClass(&r, "Call", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
					return c.run(ctx, int(n.Add(1)))
				}), troupe.Options{Retries: troupe.Never(), Timeout: time.Second, Limits: []troupe.Limit{{Name: "api", AtOnce: map[bool]int{true: 3, false: 1}[name == "hangs"], Breaker: &troupe.Breaker{
					Failures: 2, Rest: time.Hour, Counts: map[string]func(error) bool{
						"others": func(err error) bool { return !errors.Is(err, errOther) },
						"errors": func(error) bool { panic("counts as unset") },
					}[name],
				}}}})
				k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 3, MaxUnresponsive: 3}}})
				pushCalls(t, mem, 6)
				time.Sleep(2 * time.Minute)
				harness.Equal(t, "open", mem.Client.HGet(ctx, keys.Rest("troupe:", "api"), "ends").Val() != "", c.opens)
				if c.opens {
					harness.Equal(t, "held", mem.Client.ZCard(ctx, "troupe:held:api").Val() >= 3, true)
				} else {
					harness.Equal(t, "runs", n.Load(), 6)
				}
				time.Sleep(10 * time.Minute)
				k.Stop()
			})
		})
	}
}

// A handler that learns when it may ask again has its limit rest until then, whatever becomes of its job; one key alone, and no other
// limit. What cannot rest is an error that tells why.
func TestAHandlerHasItsLimitRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		type run struct {
			arg string
			at  time.Time
		}
		var runs []run
		var faults []string
		troupe.HandleClass(&r, "Call", troupe.HandlerFunc(func(c context.Context, p *troupe.Payload) error {
			runs = append(runs, run{string(p.Args()), time.Now()})
			if len(runs) > 1 {
				return nil
			}
			for limit, d := range map[string]time.Duration{"other": time.Second, "plain": time.Second, "api": 0} {
				faults = append(faults, fmt.Sprint(troupe.Rest(c, limit, d)))
			}
			harness.OK(t, troupe.Rest(c, "api", time.Second))
			harness.OK(t, troupe.Rest(c, "api", 30*time.Second))
			harness.OK(t, troupe.Rest(c, "api", 2*time.Second))
			return nil
		}), troupe.Options{Limits: []troupe.Limit{{Name: "plain", AtOnce: 5}, {Name: "api", Rate: 1000, Burst: 10, By: "0", Breaker: &troupe.Breaker{}}}})
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 1}}})
		began := time.Now()
		for _, arg := range []string{"a", "a", "a", "b"} {
			_, err := client.New(mem.Client).PushClass(ctx, "Call", []any{arg})
			harness.OK(t, err)
		}
		k.Await("all done", func() bool { return k.Stats().Processed == 4 && k.Settled() })
		k.Stop()
		var order []string
		for _, one := range runs {
			order = append(order, fmt.Sprintf("%s %.0f", one.arg, one.at.Sub(began).Seconds()))
		}
		harness.Equal(t, "runs", strings.Join(order, ", "), `["a"] 0, ["b"] 0, ["a"] 30, ["a"] 30`)
		all := strings.Join(faults, "\n")
		for _, want := range []string{
			`rest of limit "other": the job is not under it`, `rest of limit "plain": it has no Breaker, expected one`, `rest of limit "api": the time is 0s, expected a millisecond to a year`,
		} {
			if !strings.Contains(all, want) {
				t.Errorf("no %q in %s", want, all)
			}
		}
		if err := troupe.Rest(ctx, "api", time.Second); err == nil || !strings.Contains(err.Error(), "not that of a running job") {
			t.Error(err)
		}
	})
}

// A breaker that Redis has forgotten is closed: the next failures open it again, and no job is lost.
func TestABreakerThatIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var a api
		a.handle(&r, troupe.Limit{Name: "api", AtOnce: 1, Breaker: &troupe.Breaker{Failures: 2, Rest: time.Hour}})
		a.up = time.Now().Add(10 * time.Second)
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 3}}})
		pushCalls(t, mem, 10)
		held := func() int { return int(mem.Client.ZCard(ctx, "troupe:held:api").Val()) }
		open := func() bool {
			return a.count()+held() == 10 && a.count() > 1 && k.Settled() && k.Stats().Busy == 0
		}
		k.Await("it is open", open)
		before := a.count()
		mem.Client.Del(ctx, keys.Rest("troupe:", "api"))
		k.Await("it is open again", func() bool { return a.count() > before+1 && open() })
		time.Sleep(20 * time.Second)
		if n := a.count(); n < 4 || n > 6 {
			t.Errorf("%d calls", n)
		}
		mem.Client.Del(ctx, keys.Rest("troupe:", "api"))
		time.Sleep(5 * time.Minute)
		k.Await("all are done", a.allDone(10))
		k.Stop()
	})
}

// A stop that puts a probe back costs nothing: the next process runs it as the probe.
func TestAProbeThatIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var a api
		a.handle(&r, troupe.Limit{Name: "api", Breaker: &troupe.Breaker{Failures: 1, Rest: time.Minute}})
		a.up = time.Now().Add(30 * time.Second)
		cfg := actors.Config{Redis: mem.Client, Registry: &r, Timeout: time.Millisecond, Grace: time.Second, Capsules: []actors.Capsule{{Concurrency: 1}}}
		k := testkit.Start(t, cfg)
		pushCalls(t, mem, 6)
		time.Sleep(10 * time.Second)
		failed := a.count()
		k.Await("the probe runs", func() bool { return a.count() == failed+1 && k.Stats().Busy == 1 })
		k.Stop()
		probe := time.Now()
		harness.Equal(t, "probes that were put back", mem.Client.LLen(ctx, "queue:default").Val(), 1)
		k = testkit.Start(t, cfg)
		k.Await("all that have not failed are done", a.allDone(6-failed))
		if d := time.Since(probe); d > 10*time.Second {
			t.Errorf("done %s after the stop", d)
		}
		k.Stop()
	})
}
