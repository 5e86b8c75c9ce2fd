package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// A trouble is something that happens to Redis, or to the way to it.
type trouble struct {
	name  string
	begin func(*chaos.Proxy) (end func())
	quiet bool // the daemon need not notice

	refuses bool // Redis answers, perhaps after it has cut the connections
	cut     bool
}

// to lets an effect happen to every command that where picks; nil: to all.
func to(do chaos.Effect, where func([]string) bool) func(*chaos.Proxy) func() {
	return func(f *chaos.Proxy) func() { return f.Add(chaos.Fault{Where: where, Do: do}).Remove }
}

// writes are the commands that a replica, or a server without room, refuses.
func writes(c []string) bool {
	return !slices.ContainsFunc([]string{"hello", "client", "select", "ping", "subscribe", "info", "type", "zcard", "zrange", "exists", "hkeys", "smembers"}, func(name string) bool { return strings.EqualFold(name, c[0]) })
}

func troubles() []trouble {
	all := []trouble{
		{name: "away", begin: func(f *chaos.Proxy) func() { f.Kill(); return f.Restart }},
		{name: "frozen", begin: func(f *chaos.Proxy) func() { f.Pause(); return f.Resume }},
		{name: "cut before the command", begin: to(chaos.Effect{Cut: true}, nil)},
		{name: "cut before the reply", begin: to(chaos.Effect{Cut: true, Applied: true}, nil)},
		{name: "half-open, command swallowed", begin: to(chaos.Effect{Mute: true}, nil)},
		{name: "half-open, reply lost", begin: to(chaos.Effect{Mute: true, Applied: true}, nil)},
		{name: "cut before the reply, once connected", begin: to(chaos.Effect{Cut: true, Applied: true}, writes)},
		{name: "slower than the time-out", begin: to(chaos.Effect{Delay: 15 * time.Second}, nil)},
		{name: "slow", begin: to(chaos.Effect{Delay: 200 * time.Millisecond}, nil), quiet: true},
		{name: "scripts flushed", quiet: true, begin: to(chaos.Effect{Refuse: "NOSCRIPT No matching script. Please use EVAL."},
			func(c []string) bool { return strings.EqualFold(c[0], "evalsha") })},
	}
	for _, reply := range []string{
		"READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"NOREPLICAS Not enough good replicas to write.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	} {
		all = append(all, trouble{name: reply[:6], refuses: true, begin: to(chaos.Effect{Refuse: reply}, writes)})
	}
	for _, reply := range []string{
		"LOADING Redis is loading the dataset in memory",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"NOAUTH Authentication required.",
		"WRONGPASS invalid username-password pair or user is disabled.",
	} {
		all = append(all, trouble{name: reply[:6], refuses: true, cut: true, begin: func(f *chaos.Proxy) func() {
			f.Cut() // who was connected stays so
			return to(chaos.Effect{Refuse: reply}, nil)(f)
		}})
	}
	return all
}

// steps performs jobs of class Work: args are how long, and how it ends.
func steps() *troupe.Registry {
	var r troupe.Registry
	troupe.HandleClass(&r, "Work", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		var args struct {
			Seconds float64
			End     string
		}
		var list []json.RawMessage
		if err := errors.Join(json.Unmarshal(p.Args(), &list), json.Unmarshal(list[0], &args.Seconds), json.Unmarshal(list[1], &args.End)); err != nil {
			return err
		}
		time.Sleep(time.Duration(args.Seconds * float64(time.Second)))
		switch args.End {
		case "fail":
			return errors.New("on purpose")
		case "panic":
			panic("on purpose")
		case "kill":
			return troupe.Kill(errors.New("on purpose"))
		}
		return nil
	}), troupe.Options{RetryIn: func(int, error, *troupe.Payload) troupe.Delay { return troupe.Delay(24 * time.Hour) }})
	return &r
}

// traffic counts what a client does to its Redis: commands and dials.
type traffic struct {
	mu sync.Mutex
	n  int
	at []time.Time // of the dials
}

func (c *traffic) options(f *chaos.Proxy) *redis.Options {
	f.Add(chaos.Fault{Do: chaos.Effect{Cut: true}, Where: func([]string) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n++
		return false
	}})
	opts := f.Options()
	dial := opts.Dialer
	opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.mu.Lock()
		c.n++
		c.at = append(c.at, time.Now())
		c.mu.Unlock()
		return dial(ctx, network, addr)
	}
	return opts
}

func (c *traffic) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// An outage that is longer than the lease costs every process its lease. They all
// live: nobody takes anybody's jobs when Redis is back, though the jobs of one that
// died meanwhile are put back.
func TestAnOutageLongerThanTheLeaseFencesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		faults := chaos.NewProxy(t, mem.Options())
		rec := chaos.NewRecorder(mem.Client, "runs")
		cfg := actors.Config{
			Redis: faults.Client(), Registry: steps(), Middleware: []troupe.Middleware{rec.Middleware},
			Lease: 10 * time.Second, Capsules: []actors.Capsule{{Concurrency: 3}},
		}
		var jids []string
		var kits []*testkit.Kit
		for range harness.Effort(2, 4) {
			k := testkit.Start(t, cfg)
			for range 3 {
				jids = append(jids, k.PushClass("Work", []any{120, "ok"}))
			}
			k.Await("its jobs run", func() bool { return k.Stats().Busy == 3 })
			kits = append(kits, k)
		}
		orphan := `{"class":"Work","args":[0,"ok"],"jid":"of-a-dead-process","queue":"default"}`
		harness.OK(t, mem.Client.LPush(ctx, "troupe:claim:gone:1:x#default.1:1.1", orphan).Err())
		mem.Client.HSet(ctx, "troupe:inprogress:gone:1:x#default.1", "!", "1 1", "1.1", "default 1")
		mem.Client.HSet(ctx, "troupe:places", "gone:1:x#default.1", `{"v":2,"queues":["default"]}`)
		harness.OK(t, mem.Client.ZAdd(ctx, "troupe:expiries", redis.Z{Score: float64(time.Now().Add(5 * time.Second).UnixMilli()), Member: "gone:1:x#default.1"}).Err())
		faults.Kill()
		time.Sleep(time.Minute)
		faults.Restart()
		for _, k := range kits {
			k.Await("Redis is back", func() bool { return !k.Stats().RedisAway })
		}
		kits[0].Await("the dead process's job is done", func() bool { return rec.Done(t)["of-a-dead-process"] == 1 })
		for _, k := range kits {
			k.Await("its jobs end", func() bool { return k.Stats().Busy == 0 })
			k.Await("all settled", k.Settled)
			if s := k.Stats(); s.Fencings != 0 || s.Refused != 0 {
				t.Errorf("%+v", s)
			}
		}
		chaos.RequireNothingLost(t, chaos.TakeInventory(t, mem.Client), jids, rec.Done(t), nil)
		chaos.RequireAtMostRuns(t, rec.Runs(t), 1)
	})
}

// Fetching and polling end at quiet: what they have missed while Redis is away
// must not keep the daemon waiting for a return that they will not see.
func TestQuietWhileRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		faults := chaos.NewProxy(t, mem.Options())
		var log harness.Buffer
		k := testkit.Start(t, actors.Config{Redis: faults.Client(), Registry: steps(), Logger: zerolog.New(&log)})
		faults.Kill()
		k.Await("it is noticed by all", func() bool { return k.Stats().RedisAway })
		time.Sleep(20 * time.Second)
		k.Quiet()
		time.Sleep(20 * time.Second)
		harness.Equal(t, "lines that Redis is back while it is not", log.Count("redis is back"), 0)
		faults.Restart()
		k.Await("it is back", func() bool { return !k.Stats().RedisAway })
		if away, back := log.Count("redis is away"), log.Count("redis is back"); away != 1 || back != 1 {
			t.Errorf("%d lines when it began, %d when it ended:\n%s", away, back, log.String())
		}
	})
}

// In any trouble of a minute, twice the lease: one log line when it begins, one
// when it ends; no busy loop; jobs that end meanwhile keep their outcome; nothing
// is lost, runs twice, or is twice in a set.
func TestRedisInTrouble(t *testing.T) {
	for i, tr := range troubles() {
		if i%harness.Effort(3, 1) != 0 {
			continue
		}
		t.Run(tr.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { inTrouble(t, tr) }) })
	}
}

func inTrouble(t *testing.T, tr trouble) {
	mem := testkit.NewMemory(t)
	faults := chaos.NewProxy(t, mem.Options())
	var seen traffic
	way := redis.NewClient(seen.options(faults))
	defer func() { _ = way.Close() }()
	rec := chaos.NewRecorder(mem.Client, "runs")
	var log harness.Buffer
	k := testkit.Start(t, actors.Config{
		Redis: way, Registry: steps(), Logger: zerolog.New(&log).Level(zerolog.WarnLevel), Middleware: []troupe.Middleware{rec.Middleware},
		PollInterval: 5 * time.Second, PollIntervalPerProcess: 5 * time.Second,
		Capsules: []actors.Capsule{{Concurrency: 8}, {Name: "idle", Concurrency: 2, Queues: fetch.Strict{"other"}}},
	})
	c := client.New(mem.Client)
	var jids []string
	push := func(seconds float64, end string, opts ...client.Option) string {
		jid := harness.Must(c.PushClass(t.Context(), "Work", []any{seconds, end}, opts...))(t)
		jids = append(jids, jid)
		return jid
	}
	time.Sleep(6 * time.Second) // virtual: the first look at the sets is over
	for range 20 {
		push(0.01, "ok")
	}
	k.Await("the first are done", func() bool { return len(rec.Done(t)) == 20 })
	ends := map[string]string{}
	for _, end := range []string{"ok", "ok", "fail", "panic", "kill", "fail"} {
		ends[push(20, end)] = end
	}
	k.Await("they run", func() bool { return k.Stats().Busy == len(ends) })

	end := tr.begin(faults)
	for range 20 {
		push(0.01, "ok")
		push(0.01, "ok", client.In(10*time.Second))
	}
	began, before := time.Now(), seen.count()
	time.Sleep(time.Minute)
	perSecond := float64(seen.count()-before) / 60
	if away := k.Stats().RedisAway; away == tr.quiet {
		t.Errorf("RedisAway is %v", away)
	}
	end()
	trouble := time.Since(began)
	k.Await("all are done", func() bool { return len(rec.Done(t)) == 20+2+40 })
	k.Await("all is settled and Redis is back", func() bool { return inProgress(t, mem.Client) == 0 && !k.Stats().RedisAway })

	t.Logf("%.1f commands and dials a second", perSecond)
	if perSecond > 35 {
		t.Errorf("%.0f commands and dials a second while Redis is in trouble", perSecond)
	}
	chaos.RequireNothingLost(t, chaos.TakeInventory(t, mem.Client), jids, rec.Done(t), nil)
	chaos.RequireAtMostRuns(t, rec.Runs(t), 1)
	places := chaos.TakeInventory(t, mem.Client)
	for jid, end := range ends {
		want := map[string][]string{"ok": nil, "fail": {"retry"}, "panic": {"retry"}, "kill": {"dead"}}[end]
		if !slices.Equal(places[jid], want) {
			t.Errorf("a job that ended with %s is in %v, want %v", end, places[jid], want)
		}
	}
	k.Await("a healthy tree", k.Healthy)
	lines := 1
	if tr.quiet {
		lines = 0
	}
	away, refused, back, again := log.Count("redis is away"), log.Count("redis refuses"), log.Count("redis is back"), log.Count("redis serves again")
	switch {
	case tr.refuses && refused == 1 && away == 0 && back == 0 && again == 1:
	case tr.cut && refused == 1 && away == 1 && back == 1 && again == 0:
	case !tr.refuses && refused == 0 && away == lines && back == lines && again == 0:
	default:
		t.Errorf("%d lines that Redis is away, %d that it refuses, %d that it is back, %d that it serves again:\n%s", away, refused, back, again, log.String())
	}
	if n := log.Count("redis refused a command"); n > 0 {
		t.Errorf("%d lines that Redis refused a command:\n%s", n, log.String())
	}
	if !tr.quiet {
		if down := downtime(t, &log); down > trouble+15*time.Second || down < trouble-15*time.Second {
			t.Errorf("the downtime is %s of %s", down, trouble)
		}
	}
}

// downtime is that of the only line that has one.
func downtime(t *testing.T, log *harness.Buffer) time.Duration {
	t.Helper()
	for _, line := range log.Lines(t) {
		if s, ok := line["downtime_s"].(float64); ok {
			return time.Duration(s * float64(time.Second))
		}
	}
	t.Fatalf("no downtime in the log:\n%s", log)
	return 0
}
