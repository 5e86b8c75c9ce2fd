package e2e

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// site is a real Redis that gets into trouble.
type site struct {
	spec  workerSpec
	rdb   *redis.Client // for looking at it
	begin func()
	end   func() // nil: it ends by itself

	refuses bool // it answers, perhaps after it has cut the connections
}

// With a real server in real trouble a daemon says once that it begins and once
// that it ends, hardly uses the CPU, and settles what ended meanwhile. Each tick of
// a periodic job has one job, those of the time of trouble, too.
func TestARealRedisInTrouble(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(*testing.T) site{
		"a long script": busy, "the password changes": locked, "no memory is left": full, "a frozen network": frozen,
		"the server is stopped": stopped, "failover by Sentinel": failedOver,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			rec := newRecords(t)
			s.spec.Records = rec.url
			harness.OK(t, inspect.New(s.rdb).SavePeriodic(t.Context(), troupe.Periodic{Name: "t", Cron: "* * * * * * UTC", Class: "Tick", Queue: "sink", Missed: troupe.MissedAll}))
			p := startWorker(t, s.spec)
			testkit.Await(t, "it pushes at ticks", func() bool { return s.rdb.LLen(t.Context(), "queue:sink").Val() > 1 })
			c := client.New(s.rdb)
			var naps []string
			for i, class := range []string{"Nap", "Nap", "NapFail", "NapFail"} {
				jid := harness.Must(c.PushClass(t.Context(), class, []any{3}, client.Retry(i%2*25)))(t)
				naps = append(naps, jid)
			}
			rec.await(soon, 4, "start", "")
			_ = s.rdb.Wait(t.Context(), 1, time.Second) // for the replica, if there is one

			s.begin()
			begins := map[bool]string{false: "redis is away", true: "redis refuses"}[s.refuses]
			first := p.AwaitLog(begins)
			cpu := harness.CPU(t, p.PID())
			time.Sleep(6 * time.Second) // the length of the trouble is what is tested
			cpu = harness.CPU(t, p.PID()) - cpu
			if limit := 900 * time.Millisecond; cpu > limit && !harness.Race {
				t.Errorf("%s of CPU in 6 s of trouble", cpu)
			}
			if s.end != nil {
				s.end()
			}
			harness.AwaitFor(t, 3*soon, "redis is back", func() bool { // a Sentinel that stood still rests for 30 s
				return len(p.Logged("redis is back"))+len(p.Logged("redis serves again")) > 0
			})
			testkit.Await(t, "what ended meanwhile is settled", func() bool {
				return where(t, s.rdb, naps[0]) == "" && where(t, s.rdb, naps[1]) == "" &&
					where(t, s.rdb, naps[2]) == "dead" && where(t, s.rdb, naps[3]) == "retry" && len(private(t, s.rdb)) == 0
			})
			onceATick(t, s.rdb, time.Now())
			if retry, dead := s.rdb.ZCard(t.Context(), "retry").Val(), s.rdb.ZCard(t.Context(), "dead").Val(); retry > 1 || dead != 1 {
				t.Errorf("%d members of retry, %d of dead", retry, dead)
			}
			next := harness.Must(c.PushClass(t.Context(), "Record", nil))(t)
			rec.await(soon, 1, "end", next)
			for _, jid := range append(naps[:3:3], next) { // the fourth may have been tried again by now
				if n := len(rec.find("start", jid)); n != 1 {
					t.Errorf("job %s ran %d times", jid, n)
				}
			}
			end := append(p.Logged("redis is back"), p.Logged("redis serves again")...)
			if n := len(p.Logged(begins)); n != 1 || len(end) != 1 {
				t.Errorf("%d lines when it began, %d when it ended: %v", n, len(end), end)
			}
			t.Logf("%s: %v; CPU in 6 s: %s; downtime %v s", begins, first["error"], cpu, end[0]["downtime_s"])
			p.Stop(soon)
		})
	}
}

// onceATick waits until the ticks up to a time have their jobs in the queue sink: each second one.
func onceATick(t *testing.T, rdb redis.UniversalClient, until time.Time) {
	t.Helper()
	count := func() (seconds map[int64]int, first, last int64) {
		seconds, first = map[int64]int{}, math.MaxInt64
		for _, raw := range rdb.LRange(t.Context(), "queue:sink", 0, -1).Val() {
			tick, _ := troupe.Tick(parsed(t, raw))
			seconds[tick.Unix()]++
			first, last = min(first, tick.Unix()), max(last, tick.Unix())
		}
		return seconds, first, last
	}
	testkit.Await(t, "the ticks have their jobs", func() bool { _, _, last := count(); return last >= until.Unix() })
	seconds, first, last := count()
	for s := first; s <= last; s++ {
		if seconds[s] != 1 {
			t.Errorf("the tick of %s has %d jobs", time.Unix(s, 0).UTC().Format(time.TimeOnly), seconds[s])
		}
	}
}

func busy(t *testing.T) site {
	s, rdb := ownRedis(t, "--lua-time-limit", "100")
	script := redis.NewClient(&redis.Options{Addr: s.Addr, ReadTimeout: time.Minute, MaxRetries: -1})
	t.Cleanup(func() { _ = script.Close() })
	return site{
		spec: workerSpec{Redis: s.URL(0)}, rdb: rdb, refuses: true,
		begin: func() { go script.Eval(context.Background(), "while true do end", nil) },
		end: func() {
			harness.Check(t, rdb.ScriptKill(t.Context()).Err())
		},
	}
}

func locked(t *testing.T) site {
	s := redistest.Start(t)
	admin := redis.NewClient(&redis.Options{Addr: s.Addr, Password: "old", PoolSize: 1, MaxActiveConns: 1})
	t.Cleanup(func() { _ = admin.Close() })
	harness.OK(t, admin.ConfigSet(t.Context(), "requirepass", "old").Err())
	set := func(password string) {
		// The admin's own connection stays, and stays logged in.
		harness.Check(t, admin.ConfigSet(t.Context(), "requirepass", password).Err())
		harness.Check(t, admin.ClientKillByFilter(t.Context(), "SKIPME", "yes").Err())
	}
	return site{
		spec: workerSpec{Redis: "redis://:old@" + s.Addr + "/0"}, rdb: admin, refuses: true,
		begin: func() { set("new") }, end: func() { set("old") },
	}
}

func full(t *testing.T) site {
	s, rdb := ownRedis(t)
	limit := func(bytes string) func() {
		return func() {
			harness.Check(t, rdb.ConfigSet(t.Context(), "maxmemory", bytes).Err())
		}
	}
	return site{spec: workerSpec{Redis: s.URL(0)}, rdb: rdb, refuses: true, begin: limit("1"), end: limit("0")}
}

func frozen(t *testing.T) site {
	s, rdb := ownRedis(t)
	faults := chaos.NewProxy(t, &redis.Options{Addr: s.Addr})
	return site{spec: workerSpec{Redis: "redis://" + faults.Listen() + "/0"}, rdb: rdb, begin: faults.Pause, end: faults.Resume}
}

func stopped(t *testing.T) site {
	s, rdb := ownRedis(t)
	pid := rdb.InfoMap(t.Context(), "server").Item("Server", "process_id")
	signal := func(name string) func() {
		return func() {
			if out, err := exec.CommandContext(context.Background(), "kill", "-"+name, pid).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	}
	t.Cleanup(signal("CONT"))
	return site{spec: workerSpec{Redis: s.URL(0)}, rdb: rdb, begin: signal("STOP"), end: signal("CONT")}
}

// failedOver is a master that is killed, and its replica that takes its place.
func failedOver(t *testing.T) site {
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(master.Addr)
	redistest.Start(t, "--replicaof", host, port)
	addr := sentinel(t, host, port)
	spec := workerSpec{Redis: "jobs", Sentinel: addr}
	rdb := harness.Must(spec.client())(t)
	t.Cleanup(func() { _ = rdb.Close() })
	return site{spec: spec, rdb: rdb, begin: master.Kill}
}

// sentinel watches the master and its replica.
func sentinel(t *testing.T, host, port string) (addr string) {
	t.Helper()
	l := harness.Must(new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0"))(t)
	addr = l.Addr().String()
	_, own, _ := net.SplitHostPort(addr)
	_ = l.Close()
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	conf := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor jobs %s %s 1\nsentinel down-after-milliseconds jobs 1000\n"+
		"sentinel failover-timeout jobs 10000\n", own, host, port)
	harness.OK(t, os.WriteFile(file, []byte(conf), 0o600))
	chaos.Launch(t, "sentinel", exec.CommandContext(context.Background(), "redis-server", file, "--sentinel"))
	s := redis.NewSentinelClient(&redis.Options{Addr: addr})
	defer func() { _ = s.Close() }()
	testkit.Await(t, "the sentinel knows the replica", func() bool {
		replicas, err := s.Replicas(t.Context(), "jobs").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok" && !strings.Contains(replicas[0]["flags"], "down")
	})
	return addr
}
