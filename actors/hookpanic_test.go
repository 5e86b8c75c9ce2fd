package actors_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
	"github.com/troupehq/troupe/wire"
)

// everyThird is a hook that panics in each third call of these commands, and in each third dial, 30 times.
type everyThird struct {
	commands []string
	calls    *atomic.Int64
	struck   *atomic.Int64
}

func (h everyThird) strike() {
	if h.calls.Add(1)%3 == 0 && h.struck.Load() < 30 {
		h.struck.Add(1)
		panic("a bug in a hook of the user's")
	}
}

func (h everyThird) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		h.strike()
		return next(ctx, network, addr)
	}
}

func (h everyThird) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if slices.Contains(h.commands, cmd.Name()) {
			h.strike()
		}
		return next(ctx, cmd)
	}
}

func (h everyThird) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.strike()
		return next(ctx, cmds)
	}
}

// Hooks of the daemon's clients that panic, before the call, in whichever goroutine of ours: nothing
// dies, all jobs are run, and the stop comes to its end.
func TestAHookOfAClientThatPanicsEndsNothing(t *testing.T) {
	for name, factory := range map[string]fetch.Factory{"reliable": fetch.NewReliable, "basic": fetch.NewBasic} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := script.New(t)
				hook := everyThird{[]string{"blmove", "brpop", "client", "evalsha", "subscribe", "llen"}, new(atomic.Int64), new(atomic.Int64)}
				var armed atomic.Bool
				k := testkit.Start(t, actors.Config{
					Registry: s.Registry(), Logger: zerolog.Nop(),
					OnClient: func(rdb redis.UniversalClient) {
						rdb.AddHook(hook)
						if armed.Load() && hook.struck.Load() < 30 && hook.calls.Load()%2 == 0 { // a waiter's
							panic("a bug in OnClient")
						}
					},
					Capsules: []actors.Capsule{{Concurrency: 2, Fetch: factory}},
				})
				armed.Store(true)
				var jids []string
				for range 20 {
					jids = append(jids, push(k, 2, script.OK())...)
					time.Sleep(5 * time.Second)
				}
				time.Sleep(10 * time.Minute)
				for _, jid := range jids {
					k.Await("all jobs", func() bool { return s.Ended(jid) })
				}
				if hook.struck.Load() == 0 {
					t.Error("no hook has panicked")
				}
				k.Stop()
			})
		})
	}
}

// Lines that are written before a job is settled, and at the start, may meet a log hook that panics:
// the job is settled all the same, the daemon runs.
func TestALogHookThatPanicsBeforeASettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var struck atomic.Int64
		hook := zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, text string) {
			if slices.Contains([]string{"a retry callback failed", "troupe is running", "redis is away", "redis is back", "redis refuses", "redis serves again"}, text) {
				struck.Add(1)
				panic("a bug in a hook of the user's")
			}
		})
		var log harness.Buffer
		var r troupe.Registry
		fails := troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return errors.New("no") })
		troupe.HandleClass(&r, "Odd", fails, troupe.Options{RetryIn: func(int, error, *troupe.Payload) troupe.Delay { panic("a bug in a callback") }})
		k := testkit.Start(t, actors.Config{
			Redis: testkit.NewMemory(t).Client, Registry: &r, Logger: zerolog.New(&log).Hook(hook),
			Capsules: []actors.Capsule{{Concurrency: 1}},
		})
		k.PushClass("Odd", nil)
		k.Await("the job is stored", func() bool { return size(t, k.Redis, "retry") == 1 })
		if struck.Load() < 2 {
			t.Errorf("the hook has panicked %d times", struck.Load())
		}
	})
}

// A rule of a wire that panics, or leaves the goroutine, after the handler has ended: the job is stored while
// the process lives, by the rule if it works again, else dead as it was fetched.
func TestARuleThatPanicsLeavesNoJobInItsPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		times int64 // that it panics
		exit  bool
		raw   string
		want  string
	}{
		"at first":             {times: 2, raw: job("Fails", "1", "[]"), want: "retry"},
		"at first, and leaves": {times: 2, exit: true, raw: job("Fails", "1", "[]"), want: "retry"},
		"always":               {times: 1 << 30, raw: job("Fails", "1", "[]"), want: "dead"},
		"of no job":            {times: 1 << 30, raw: "no job", want: "dead"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r troupe.Registry
				troupe.HandleClass(&r, "Fails", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return errors.New("no") }), troupe.Options{})
				var left atomic.Int64
				left.Store(tt.times)
				spoil := func() {
					if left.Add(-1) >= 0 {
						if tt.exit {
							runtime.Goexit()
						}
						panic("a bug in a wire")
					}
				}
				w := &wire.Wire{Name: "odd", Rules: &retry.Rules{
					Retries: func(retry.Failed) (bool, bool) { spoil(); return true, false },
					Record:  func(retry.Failed) int64 { return 0 },
					Wait:    func(retry.Failed, int64, uint64) float64 { return 60 },
					Dead:    func([]byte, string, error, time.Time) []byte { spoil(); return nil },
				}}
				k := testkit.Start(t, actors.Config{
					Redis: testkit.NewMemory(t).Client, Registry: &r, Logger: zerolog.Nop(),
					Capsules: []actors.Capsule{{Concurrency: 1, Wire: w}},
				})
				k.Redis.LPush(t.Context(), "queue:default", tt.raw)
				k.Await("the job is stored", func() bool { return size(t, k.Redis, tt.want) == 1 && inProgress(t, k.Redis) == 0 })
				left.Store(0)
				k.Redis.LPush(t.Context(), "queue:default", job("Fails", "2", "[]"))
				k.Await("the next one fails as ever", func() bool { return size(t, k.Redis, "retry")+size(t, k.Redis, "dead") == 2 })
				if report := k.Stop(); len(report.Left) > 0 {
					t.Errorf("the stop: %s", report)
				}
			})
		})
	}
}
