package actors_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/rights"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// without are the rights that a daemon can do without, by the rule that grants one.
var without = []string{"+blmove", "+scard", "+bitfield", "+client|id", "+client|unblock", "+scan", "+subscribe", "+publish", "+zrank", "+zrevrank",
	"~j|*", "~h|*", "~*-[0-9][0-9]-[0-9][0-9]:*", "~cron_job*", "~sidekiq-scheduler:*", "&troupe:*",
}

// limited is a user of a real Redis, or of each node of a cluster, and a client
// that logs in as it.
type limited struct {
	t     *testing.T
	nodes []*redis.Client // with all rights
	admin redis.UniversalClient
	rdb   redis.UniversalClient
}

// grant gives the user these rights and no others.
func (l *limited) grant(rules ...string) {
	l.t.Helper()
	args := []any{"ACL", "SETUSER", "limited", "reset", "on", ">pw"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	for _, node := range l.nodes {
		if err := node.Do(ctx, args...).Err(); err != nil {
			l.t.Fatalf("%v: %v", args, err)
		}
	}
}

// refused are the entries of the servers' logs of refused calls.
func (l *limited) refused() (entries []string) {
	l.t.Helper()
	for _, node := range l.nodes {
		list := harness.Must(node.Do(ctx, "ACL", "LOG", 100).Slice())(l.t)
		for _, e := range list {
			entries = append(entries, fmt.Sprint(e))
		}
	}
	return entries
}

func (l *limited) forget() {
	for _, node := range l.nodes {
		harness.OK(l.t, node.Do(ctx, "ACL", "LOG", "RESET").Err())
	}
}

func newLimited(t *testing.T) *limited {
	t.Helper()
	server := testkit.NewServer(t)
	admin := server.Client
	opt := server.Options()
	opt.Username, opt.Password, opt.DisableIdentity = "limited", "pw", true
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	rdb := redis.NewClient(opt)
	t.Cleanup(func() { _ = rdb.Close() })
	return &limited{t: t, nodes: []*redis.Client{admin}, admin: admin, rdb: rdb}
}

func newLimitedCluster(t *testing.T) *limited {
	t.Helper()
	admin, cluster := redistest.NewCluster(t)
	l := &limited{t: t, admin: admin}
	for _, node := range cluster.Nodes {
		rdb := redis.NewClient(&redis.Options{Addr: node.Addr, MaxRetries: -1})
		t.Cleanup(func() {
			rdb.Do(ctx, "ACL", "DELUSER", "limited")
			_ = rdb.Close()
		})
		l.nodes = append(l.nodes, rdb)
	}
	opt := *admin.Options()
	opt.Username, opt.Password, opt.DisableIdentity = "limited", "pw", true
	l.rdb = redis.NewClusterClient(&opt)
	t.Cleanup(func() { _ = l.rdb.Close() })
	return l
}

// config is that of a daemon which does all that one can do to Redis, soon.
func (l *limited) config(capsule actors.Capsule, log *harness.Buffer) (actors.Config, *script.Jobs, *walker) {
	s, w := script.New(l.t), &walker{}
	_ = w.registry() // makes its maps
	registry := s.Registry()
	troupe.HandleIterable(registry, w.items, w.item, w.opts)
	capsule.Queues, capsule.Concurrency = fetch.Strict{"default", "other"}, 3
	return actors.Config{
		Redis: l.rdb, Registry: registry, Capsules: []actors.Capsule{capsule}, Logger: zerolog.New(log),
		Lease: time.Second, HeartbeatInterval: 100 * time.Millisecond, PollInterval: 100 * time.Millisecond,
		Timeout: 50 * time.Millisecond, WorkersKey: true, Poison: actors.Poison{Suspect: 1, Recoveries: 3},
	}, s, w
}

// exercise runs a daemon with the rights of l's user through all that it does to
// Redis: jobs in bulk, failures, retries, deaths, schedules, pauses, a rescue, a
// suspect, an iterable job, statistics, a requeue.
func exercise(l *limited, capsule actors.Capsule) {
	t := l.t
	t.Helper()
	await := func(what string, cond func() bool) { t.Helper(); testkit.Await(t, what, cond) }
	onCluster := redisconn.OnCluster(l.rdb)
	log := &harness.Buffer{}
	cfg, s, w := l.config(capsule, log)
	c := client.New(l.admin)
	push := func(args troupe.Args, opts ...client.Option) string {
		jid := harness.Must(c.Push(ctx, args, opts...))(t)
		return jid
	}
	ended := func(jid string, n int) func() bool { return func() bool { return s.Runs()[jid] >= n && s.Ended(jid) } }
	in := func(set, jid string) func() bool {
		return func() bool { return strings.Contains(fmt.Sprint(l.admin.ZRange(ctx, set, 0, -1).Val()), jid) }
	}
	if !onCluster {
		orphan(t, l.admin, job("Scripted", "orphan", `["ok"]`), false)
	}
	for range 300 {
		push(script.OK(), client.Queue("other"))
	}
	d := harness.Must(actors.New(cfg))(t)
	harness.OK(t, d.Start(ctx))
	await("all jobs", ended(push(script.OK(), client.Queue("other")), 1))
	failed := push(script.Fail())
	await("a retry", in("retry", failed))
	for _, m := range l.admin.ZRange(ctx, "retry", 0, -1).Val() {
		l.admin.ZAddXX(ctx, "retry", redis.Z{Score: 1, Member: m})
	}
	await("a second run", ended(failed, 2))
	killed := push(script.Step{Do: "kill"})
	await("a death", in("dead", killed))
	later := harness.Must(c.Push(ctx, script.OK(), client.In(100*time.Millisecond)))(t)
	await("a scheduled job", ended(later, 1))
	l.admin.SAdd(ctx, "paused", "other")
	paused := push(script.OK(), client.Queue("other"))
	await("a job beside a pause", ended(push(script.OK()), 1))
	l.admin.SRem(ctx, "paused", "other")
	await("a job after a pause", ended(paused, 1))
	walked := push(walk{3})
	await("an iterable job", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.ran[walked]) == 3
	})
	if !onCluster && capsule.Fetch == nil { // the basic fetcher takes no suspects
		await("a suspect", ended("orphan", 1))
	}
	await("statistics", func() bool { n, _ := l.admin.Get(ctx, "stat:processed").Int(); return n >= 307 })
	await("a listed process", func() bool { return l.admin.HExists(ctx, d.Identity(), "info").Val() })
	push(script.Hang())
	await("a running job", func() bool { return l.admin.HLen(ctx, d.Identity()+":work").Val() > 0 })
	if _, err := d.Stop(ctx); err != nil {
		t.Error(err)
	}
	harness.Equal(t, "jobs requeued", l.admin.LLen(ctx, "queue:default").Val(), 1)
	if l.admin.SIsMember(ctx, "processes", d.Identity()).Val() {
		t.Error("the process is still listed")
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, `"level":"error"`) && !strings.Contains(line, "job failed") {
			t.Error(line)
		}
	}
}

// rightsModes are the daemons whose rights differ.
var rightsModes = map[string]struct {
	make    func(*testing.T) *limited
	capsule actors.Capsule
}{
	"reliable": {newLimited, actors.Capsule{}},
	"basic":    {newLimited, actors.Capsule{Fetch: fetch.NewBasic}},
	"cluster":  {newLimitedCluster, actors.Capsule{}},
}

// start starts a daemon and stops it. It returns what the start has logged, and its
// error if that speaks of rights.
func (l *limited) start(capsule actors.Capsule) (log string, lacks *rights.Error) {
	l.t.Helper()
	text := &harness.Buffer{}
	cfg, _, _ := l.config(capsule, text)
	d, err := actors.New(cfg)
	harness.OK(l.t, err)
	err = d.Start(ctx)
	if err == nil {
		_, err = d.Stop(ctx)
	} else if errors.As(err, &lacks) {
		err = nil
	}
	harness.OK(l.t, err)
	return text.String(), lacks
}

// A user without any right is told of all that is missing at once. With the rule
// that the error names, the daemon works, and Redis refuses none of its calls.
func TestTheRuleOfARefusedStartGrantsAllRights(t *testing.T) {
	for name, mode := range rightsModes {
		t.Run(name, func(t *testing.T) {
			l := mode.make(t)
			base := []string{"+info", "+acl|whoami"} // not needed; else their refusal would stand in the server's log
			if name == "cluster" {
				base = append(base, "+cluster", "+readonly")
			}
			l.grant(base...)
			_, lacks := l.start(mode.capsule)
			if lacks == nil {
				t.Fatal("a daemon without rights has started")
			}
			if name == "reliable" {
				documented(t, lacks.Rule)
			}
			l.grant(slices.Concat(base, lacks.Rule)...)
			l.forget()
			exercise(l, mode.capsule)
			missing(l)
			if refused := l.refused(); len(refused) > 0 {
				t.Errorf("with the rule %s redis refuses\n%s", strings.Join(lacks.Rule, " "), strings.Join(refused, "\n"))
			}
		})
	}
}

// missing looks for a job that is nowhere as the leader does, among more jobs than a page of each set has.
func missing(l *limited) {
	l.t.Helper()
	sets := []string{"retry", "schedule"}
	if !redisconn.OnCluster(l.rdb) {
		harness.OK(l.t, l.admin.ZAdd(ctx, "troupe:held", redis.Z{Score: 4e9, Member: "one"}).Err())
		sets = append(sets, "troupe:held:one")
	}
	for _, set := range sets {
		for i := range 120 {
			text := fmt.Sprintf(`{"class":"C","args":[],"jid":"m%d"}`, i)
			if set == "troupe:held:one" {
				text = fmt.Sprintf("%d.1.1 [\"queue:a\",\"a\",\"m%d\",\"one\"]\n%s", i, i, text)
			}
			harness.OK(l.t, l.admin.ZAdd(ctx, set, redis.Z{Score: 4e9, Member: text}).Err())
		}
	}
	gone, err := inspect.New(l.rdb).Missing(ctx, "nowhere")
	harness.OK(l.t, err)
	harness.EqualList(l.t, "missing", gone, []string{"nowhere"})
}

// documented wants the rule in the manual, in any order.
func documented(t *testing.T, rule []string) {
	t.Helper()
	manual := harness.Must(os.ReadFile("../docs/scaling.md"))(t)
	_, block, _ := strings.Cut(string(manual), "ACL SETUSER troupe on >PASSWORD")
	block, _, _ = strings.Cut(block, "```")
	got := strings.Fields(block)
	slices.Sort(got)
	want := slices.Sorted(slices.Values(rule))
	if !slices.Equal(got, want) {
		t.Errorf("docs/scaling.md grants\n%s\nexpected\n%s", strings.Join(got, " "), strings.Join(want, " "))
	}
}

// A user for each right that is missing: what is needed is named, and nothing else;
// without the rest the daemon starts and says what it is for.
func TestAStartWithoutOneRight(t *testing.T) {
	l := newLimited(t)
	l.grant()
	_, lacks := l.start(actors.Capsule{})
	if lacks == nil || lacks.User != "limited" {
		t.Fatalf("%+v", lacks)
	}
	rule := lacks.Rule
	if len(rule) < 60 {
		t.Fatalf("the rule has %d rights", len(rule))
	}
	for i, right := range rule {
		l.grant(slices.Concat(rule[:i], rule[i+1:], []string{"+info"})...)
		log, lacks := l.start(actors.Capsule{})
		name := strings.ToUpper(right[1:])
		if right[0] != '+' {
			name = right[1:]
		}
		switch optional := slices.Contains(without, right); {
		case optional && lacks != nil:
			t.Errorf("without %s: %v", right, lacks)
		case optional && !strings.Contains(log, "does not give user"):
			t.Errorf("without %s: nothing is said", right)
		case optional:
		case lacks == nil:
			t.Errorf("without %s the daemon starts", right)
		case right == "+multi": // without it some cannot be asked, and may be granted as well
			if !slices.Equal(lacks.Commands, []string{"MULTI"}) || len(lacks.Keys)+len(lacks.Channels) > 0 || lacks.Rule[0] != right {
				t.Errorf("without %s: %+v", right, lacks)
			}
		case !slices.Equal(lacks.Rule, []string{right}):
			t.Errorf("without %s: %v", right, lacks)
		case right[0] == '+' && !strings.Contains(lacks.Error(), "missing are commands "+name+": grant them with ACL SETUSER limited "+right),
			right[0] == '~' && !strings.Contains(lacks.Error(), "missing are keys "), lacks.Error() == "":
			t.Errorf("without %s: %v", right, lacks)
		}
	}
}

// Several at once, one queue of two, and what it can do without.
func TestAStartNamesAllMissingRights(t *testing.T) {
	l := newLimited(t)
	for rules, want := range map[string]string{
		"+@all -evalsha -time ~* &*": "commands EVALSHA, TIME: grant them with ACL SETUSER limited +evalsha +time",
		"+@all ~q* ~[^q]* &*":        "",
		"+@all &* ~queue:default ~queue:default.suspects ~[^q]* ~queues": "keys queue:other, queue:other.suspects: grant them with ACL SETUSER limited ~queue:*",
		"+@all -time ~[^p]* resetchannels":                               "commands TIME; keys paused, processes, process_cleanup; channels troupe:wakeup: grant",
		"+@all -time -blmove -client ~* &*":                              "commands TIME, BLMOVE, CLIENT|ID, CLIENT|UNBLOCK: grant",
		"+@all -blmove -client ~* resetchannels":                         "",
	} {
		l.grant(strings.Fields(rules)...)
		_, lacks := l.start(actors.Capsule{})
		if got := fmt.Sprint(lacks); want == "" && lacks != nil || want != "" && (lacks == nil || !strings.Contains(got, want)) {
			t.Errorf("%s\n got %s\nwant %s", rules, got, want)
		}
	}
}

// What a daemon can do without is not needed: it does all of its work.
func TestADaemonWithoutOptionalRights(t *testing.T) {
	for name, mode := range rightsModes {
		t.Run(name, func(t *testing.T) {
			l := mode.make(t)
			rules := []string{"+@all", "-blmove", "-info", "-bitfield", "-client", "~*", "resetchannels"}
			l.grant(rules...)
			exercise(l, mode.capsule)
		})
	}
}

// A server without users, and one that says NOPERM to nobody, pass.
func TestAStartInMemoryAsksForRights(t *testing.T) {
	m := testkit.NewMemory(t)
	k := testkit.Start(t, actors.Config{Redis: m.Client})
	if k.Err() != nil {
		t.Error(k.Err())
	}
}

// A user who may not look at periodic jobs has a daemon that is ready, leads and says so once.
func TestWithoutRightsToPeriodicJobs(t *testing.T) {
	l, log := newLimited(t), new(harness.Buffer)
	l.grant("+@all", "&*", "~queue*", "~troupe:*", "~*:*:*", "~retry", "~schedule", "~dead", "~process*", "~paused", "~stat:*", "~j|*", "~h|*")
	d := harness.Must(actors.New(actors.Config{Redis: l.rdb, Registry: new(troupe.Registry), Logger: zerolog.New(log)}))(t)
	harness.OK(t, d.Start(t.Context()))
	defer func() { _, _ = d.Stop(t.Context()) }()
	harness.Await(t, "it says what it may not do", func() bool { return log.Count("may not carry out periodic jobs") > 0 })
	if s := d.Stats(); s.RedisAway || s.RedisRefuses != "" {
		t.Errorf("%+v", s)
	}
	harness.Equal(t, "lines of an outage", log.Count("redis refuses"), 0)
}
