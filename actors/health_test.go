package actors_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
	"github.com/troupehq/troupe/testkit/script"
)

// codes are those of a Check, in order.
func codes(c actors.Check) string {
	var all []string
	for _, why := range c {
		all = append(all, why.Code)
	}
	return strings.Join(all, " ")
}

// checkHealth compares the codes of a daemon's three answers.
func checkHealth(t *testing.T, d *actors.Daemon, when, started, live, ready string) {
	t.Helper()
	h := d.Health()
	if codes(h.Started) != started || codes(h.Live) != live || codes(h.Ready) != ready {
		t.Errorf("%s: started %v, live %v, ready %v, expected %q, %q, %q", when, h.Started, h.Live, h.Ready, started, live, ready)
	}
}

// wedge is a fetcher whose calls the test can hang or fail.
type wedge struct {
	fetch.Fetcher
	mu    sync.Mutex
	hang  map[string]chan struct{} // calls that do not return before it is closed
	fails []error                  // of the next Takes; the last of them of all that follow
}

func (g *wedge) factory(e fetch.Env) (f fetch.Fetcher, err error) {
	g.Fetcher, err = fetch.NewReliable(e)
	return g, err
}

func (g *wedge) call(name string) error {
	g.mu.Lock()
	hang := g.hang[name]
	var err error
	if name == "Take" && len(g.fails) > 0 {
		if err = g.fails[0]; len(g.fails) > 1 {
			g.fails = g.fails[1:]
		}
	}
	g.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return err
}

func (g *wedge) set(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do()
}

func (g *wedge) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if err := g.call("Take"); err != nil {
		return nil, err
	}
	return g.Fetcher.Take(ctx, n, acks)
}

func (g *wedge) Wait(ctx context.Context, d time.Duration) error {
	_ = g.call("Wait")
	return g.Fetcher.Wait(ctx, min(d, time.Second))
}

func TestHealthOfAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var created *actors.Daemon
		var log harness.Buffer
		mem := testkit.NewMemory(t)
		proxy := chaos.NewProxy(t, mem.Options())
		g := &wedge{fails: []error{errHeld}}
		cfg := actors.Config{
			Redis: proxy.Client(), Registry: new(troupe.Registry), Logger: zerolog.New(&log), Capsules: []actors.Capsule{{Fetch: g.factory}},
			On: actors.Events{Created: []func(*actors.Daemon){func(*actors.Daemon) { panic("on purpose") }, func(d *actors.Daemon) { created = d }}},
		}
		d, err := actors.New(cfg)
		if err != nil || created != d || log.Count(`"event":"created"`) != 1 {
			t.Fatalf("created %v of %v, %v, %s", created, d, err, log.String())
		}
		checkHealth(t, d, "before the start", "starting", "", "starting")
		beat := proxy.Add(chaos.Fault{Mentions: "processes", Do: chaos.Effect{Refuse: "ERR on purpose"}})
		harness.OK(t, d.Start(ctx))
		time.Sleep(2 * time.Minute)
		checkHealth(t, d, "nothing has reached Redis", "unregistered no_fetch", "", "unregistered no_fetch redis_refuses")
		if text, want := d.Health().Started[1].Text, "launcher/default/fetcher has had no answer for 2m0s"; text != want {
			t.Errorf("%q, expected %q", text, want)
		}
		beat.Remove()
		time.Sleep(15 * time.Second) // a beat is due every ten
		checkHealth(t, d, "the fetcher has had no answer", "no_fetch", "", "no_fetch")
		g.set(func() { g.fails = nil })
		time.Sleep(2 * time.Second)
		checkHealth(t, d, "it runs", "", "", "")
		if h := d.Health(); h.Phase != "running" || h.Slots != 10 || h.Busy != 0 {
			t.Errorf("%+v", h)
		}
		g.set(func() { g.fails = []error{errHeld} })
		proxy.Add(chaos.Fault{Mentions: "processes", Do: chaos.Effect{Refuse: "ERR on purpose"}})
		time.Sleep(2 * time.Minute)
		checkHealth(t, d, "what has started stays so", "", "", "redis_refuses")
		harness.Must(d.Stop(ctx))(t)
		checkHealth(t, d, "after the end", "", "", "ended")
		time.Sleep(time.Second) // protoactor-go counts late messages for 20 ms
	})
}

// Each actor that gets no messages is down after a minute, and only then.
func TestHealthOfAWedgedActor(t *testing.T) {
	for _, path := range []string{"launcher/default/fetcher", "launcher/default/processor-1", "launcher/default", "launcher/heartbeat", "launcher/rescuer", "launcher/poller", "launcher"} {
		for state, do := range map[string]func(*testkit.Kit, string){"held": (*testkit.Kit).Hold, "suspended": (*testkit.Kit).Suspend} {
			t.Run(path+" "+state, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k := testkit.Start(t, actors.Config{Concurrency: 2})
					time.Sleep(5 * time.Second)
					checkHealth(t, k.Daemon, "before", "", "", "")
					do(k, path)
					time.Sleep(59 * time.Second)
					checkHealth(t, k.Daemon, "after 59 s", "", "", "")
					time.Sleep(2 * time.Second)
					checkHealth(t, k.Daemon, "after 61 s", "", "actor_down", "")
					if text, want := k.Health().Live[0].Text, path+" has been "+state+" for 1m1s"; text != want {
						t.Errorf("%q, expected %q", text, want)
					}
					map[string]func(*testkit.Kit, string){"held": (*testkit.Kit).Release, "suspended": (*testkit.Kit).Resume}[state](k, path)
					synctest.Wait()
					checkHealth(t, k.Daemon, "afterwards", "", "", "")
				})
			})
		}
	}
}

// The calls of a fetcher, a beat and a strategy that do not return are found, and those that are
// due later are not.
func TestHealthOfWhatDoesNotReturn(t *testing.T) {
	var never chan struct{} // of the bubble
	var armed, shut atomic.Bool
	var log zerolog.Logger
	for name, c := range map[string]struct {
		cfg    func(g *wedge) actors.Config
		wedge  func(k *testkit.Kit, g *wedge)
		fine   time.Duration
		code   string
		naming string
	}{
		"a Take": {
			wedge: func(_ *testkit.Kit, g *wedge) {
				g.set(func() { g.hang = map[string]chan struct{}{"Take": never} })
			},
			fine: 55 * time.Second, code: "fetch_stuck", naming: "launcher/default/fetcher has waited for a call",
		},
		"a Wait": {
			wedge: func(_ *testkit.Kit, g *wedge) {
				g.set(func() { g.hang = map[string]chan struct{}{"Wait": never} })
			},
			fine: 5*time.Minute + 55*time.Second, code: "fetch_stuck", naming: "launcher/default/fetcher has waited for a call",
		},
		"a beat": {
			cfg: func(*wedge) actors.Config {
				return actors.Config{OnClient: func(rdb redis.UniversalClient) { rdb.AddHook(hangingHook{never, "sadd", &armed}) }}
			},
			wedge: func(*testkit.Kit, *wedge) { armed.Store(true) },
			fine:  69 * time.Second, code: "beat_late", naming: "launcher/heartbeat has not come to a beat",
		},
		"a strategy": {
			cfg: func(*wedge) actors.Config {
				return actors.Config{Strategy: made(strategyFunc(func(actor.Supervisor, *actor.PID, any) { <-never }))}
			},
			wedge: func(k *testkit.Kit, _ *wedge) { k.Crash("launcher/poller", errInjected) },
			fine:  59 * time.Second, code: "strategy_blocked", naming: "launcher has waited for its strategy actors_test.strategyFunc",
		},
		"the reader of the log": {
			cfg: func(*wedge) actors.Config {
				log, _ = actors.GuardLog(zerolog.New(writer(func() {
					if shut.Load() {
						<-never
					}
				})))
				return actors.Config{Logger: log}
			},
			wedge: func(*testkit.Kit, *wedge) {
				shut.Store(true)
				log.Info().Msg("a line")
			},
			fine: 59 * time.Second, code: "log_blocked", naming: "the log has taken no line for 1m",
		},
		"a decision": {
			cfg: func(*wedge) actors.Config {
				return actors.Config{Strategy: made(strategyFunc(func(actor.Supervisor, *actor.PID, any) {}))}
			},
			wedge: func(k *testkit.Kit, _ *wedge) { k.Crash("launcher/rescuer", errInjected) },
			fine:  59 * time.Second, code: "actor_down", naming: "launcher/rescuer has been crashed",
		},
		"a restart that is due": {
			cfg: func(*wedge) actors.Config {
				return actors.Config{Strategy: supervisor.OneForOne(supervisor.Spec{Intensity: 100, Backoff: supervisor.Backoff{Min: 9 * time.Minute, Max: 9 * time.Minute}})}
			},
			wedge: func(k *testkit.Kit, _ *wedge) {
				k.Crash("launcher/rescuer", errInjected) // restarted at once
				time.Sleep(time.Millisecond)
				k.Crash("launcher/rescuer", errInjected)
			},
			fine: 10 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never = make(chan struct{})
				g := &wedge{}
				var cfg actors.Config
				if c.cfg != nil {
					cfg = c.cfg(g)
				}
				cfg.Capsules = []actors.Capsule{{Concurrency: 2, Fetch: g.factory}}
				if name != "the reader of the log" {
					cfg.Logger = zerolog.Nop()
				}
				k := testkit.Start(t, cfg)
				c.wedge(k, g)
				var wedged time.Duration
				for ; wedged < c.fine; wedged += time.Second {
					time.Sleep(time.Second)
					if h := k.Health(); !h.Live.OK() {
						t.Fatalf("after %s: %v", wedged, h.Live)
					}
				}
				time.Sleep(10 * time.Second)
				live := k.Health().Live
				if found := slices.ContainsFunc(live, func(why actors.Reason) bool { return why.Code == c.code && strings.HasPrefix(why.Text, c.naming) }); found != (c.code != "") {
					t.Errorf("live %v, expected %s: %s", live, c.code, c.naming)
				}
				close(never)
			})
		})
	}
}

// writer is called for each line of a log.
type writer func()

func (w writer) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}

// hangingHook keeps pipelines with a command until never is closed, whatever their context says.
type hangingHook struct {
	never   chan struct{}
	command string
	armed   *atomic.Bool
}

func (h hangingHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hangingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h hangingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if h.armed.Load() && cmd.Name() == h.command {
				<-h.never
			}
		}
		return next(ctx, cmds)
	}
}

// An actor that its strategy has stopped for good is missed, but for one of several processors.
func TestHealthOfAnActorThatWasStopped(t *testing.T) {
	stops := func() *supervisor.Strategy {
		return supervisor.OneForOne(supervisor.Spec{Decide: func(supervisor.Failure) supervisor.Directive { return supervisor.Stop }})
	}
	for paths, code := range map[string]string{
		"launcher/default/fetcher": "actor_down", "launcher/default": "actor_down", "launcher/heartbeat": "actor_down",
		"launcher/rescuer": "actor_down", "launcher/poller": "actor_down",
		"launcher/default/processor-0": "", "launcher/default/processor-0 launcher/default/processor-1": "actor_down",
	} {
		t.Run(paths, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := testkit.Start(t, actors.Config{
					Logger: zerolog.Nop(), Strategy: stops(), Capsules: []actors.Capsule{{Concurrency: 2, Strategy: stops()}, {Name: "other"}},
				})
				for path := range strings.FieldsSeq(paths) {
					k.Crash(path, errInjected)
					time.Sleep(time.Second)
				}
				time.Sleep(70 * time.Second)
				h := k.Health()
				if codes(h.Live) != code || code != "" && !strings.Contains(h.Live[0].Text, " has been stopped for ") {
					t.Errorf("live %v, expected %q", h.Live, code)
				}
			})
		})
	}
}

// None of these is a reason to restart the process: Redis away, all processors busy with jobs that are
// unresponsive, quiet, fewer processors than before.
func TestHealthOfADaemonInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		proxy := chaos.NewProxy(t, testkit.NewMemory(t).Options())
		k := testkit.Start(t, actors.Config{
			Redis: proxy.Client(), Registry: s.Registry(), Logger: zerolog.Nop(),
			Capsules: []actors.Capsule{{Concurrency: 3}, {Name: "limited", Concurrency: 1, Queues: fetch.Strict{"limited"}, Limits: actors.Limits{Empty: true}}},
		})
		push(k, 3, script.Step{Do: "unresponsive"})
		k.Await("all run", func() bool { return k.Stats().Busy == 3 })
		if h := k.Health(); h.Busy != 3 || h.Slots != 4 || h.Running["default"] != 3 {
			t.Errorf("%+v", h)
		}
		time.Sleep(2 * time.Minute)
		checkHealth(t, k.Daemon, "slots full", "", "", "")
		harness.OK(t, k.Configure(ctx, actors.Capsule{Concurrency: 2}))
		proxy.Kill()
		time.Sleep(4 * time.Second)
		checkHealth(t, k.Daemon, "Redis away for 4 s at most", "", "", "")
		time.Sleep(12 * time.Second)
		checkHealth(t, k.Daemon, "Redis away", "", "", "redis_away")
		time.Sleep(2 * time.Minute)
		checkHealth(t, k.Daemon, "Redis away for minutes", "", "", "redis_away")
		proxy.Restart()
		time.Sleep(20 * time.Second)
		checkHealth(t, k.Daemon, "Redis is back", "", "", "")
		full := proxy.Add(chaos.Fault{Where: writes, Do: chaos.Effect{Refuse: "OOM command not allowed when used memory > 'maxmemory'."}})
		time.Sleep(30 * time.Second)
		checkHealth(t, k.Daemon, "Redis refuses and is there", "", "", "redis_refuses")
		full.Remove()
		time.Sleep(20 * time.Second)
		checkHealth(t, k.Daemon, "Redis takes writes again", "", "", "")
		k.Quiet()
		time.Sleep(2 * time.Minute)
		checkHealth(t, k.Daemon, "quiet", "", "", "quiet")
		go func() { _, _ = k.Daemon.Stop(ctx) }()
		time.Sleep(time.Second)
		checkHealth(t, k.Daemon, "stopping", "", "", "stopping")
		s.Release()
	})
}

func TestHealthOfAFencedDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &wedge{}
		k := testkit.Start(t, actors.Config{Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Fetch: g.factory}}})
		time.Sleep(time.Minute)
		g.set(func() { g.fails = []error{&fetch.FencedError{ID: "x#default.1", Incarnation: 1}, errHeld} })
		k.Push(script.OK())
		time.Sleep(time.Minute)
		checkHealth(t, k.Daemon, "fenced", "", "", "fenced")
		g.set(func() { g.fails = nil })
		time.Sleep(2 * time.Second)
		checkHealth(t, k.Daemon, "a new incarnation", "", "", "")
	})
}

// A logger that blocks holds a stop up, which nothing else does.
func TestHealthOfAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := testkit.Start(t, actors.Config{Timeout: time.Second, Logger: zerolog.New(blockingWriter{release})})
		go func() { _, _ = k.Daemon.Stop(ctx) }()
		time.Sleep(18 * time.Second) // 1 s, 7.5 s and 9.5 s
		checkHealth(t, k.Daemon, "late", "", "", "stopping")
		time.Sleep(time.Second)
		checkHealth(t, k.Daemon, "overdue", "", "stop_overdue", "stopping")
		close(release)
		<-k.Done()
		checkHealth(t, k.Daemon, "ended", "", "", "ended")
	})
}

type blockingWriter struct{ release chan struct{} }

func (w blockingWriter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"drain"`)) {
		<-w.release
	}
	return len(p), nil
}

func TestHealthOfADaemonThatGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testkit.Start(t, actors.Config{Logger: zerolog.Nop(), Strategy: supervisor.OneForOne(supervisor.Spec{Intensity: -1})})
		k.Crash("launcher/poller", errInjected)
		<-k.Done()
		checkHealth(t, k.Daemon, "given up", "", "gave_up", "ended")
	})
}

// A storm of restarts within the budget is no reason to restart the process.
func TestHealthOfAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := testkit.Start(t, actors.Config{Logger: zerolog.Nop()})
		for range 30 {
			k.Crash("launcher/rescuer", errInjected)
			time.Sleep(6 * time.Second)
			if h := k.Health(); !h.Live.OK() {
				t.Fatalf("%v", h.Live)
			}
		}
	})
}
