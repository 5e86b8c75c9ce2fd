package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
)

// What Sidekiq 6, 7 and 8 write, as observed.
const (
	id6   = "vm:481:f3e0624fd5ca"
	id7   = "vm:20684:73020c958a01"
	id8   = "vm:24128:acf4dc59d44a"
	info6 = `{"hostname":"vm","started_at":1795224910.7343729,"pid":481,"tag":"mytag","concurrency":3,"queues":["crit","default"],"labels":[],"identity":"vm:481:f3e0624fd5ca"}`
	info7 = `{"hostname":"vm","started_at":1795225007.7594573,"pid":20684,"tag":"mytag","concurrency":4,"queues":["crit","default","serial","serial2"],"weights":[{"crit":3,"default":1},{"serial":0,"serial2":0}],"labels":[],"identity":"vm:20684:73020c958a01","version":"7.3.9","embedded":false}`
	info8 = `{"hostname":"vm","started_at":1795225092.901522,"pid":24128,"tag":"mytag","capsules":{"default":{"concurrency":3,"mode":"weighted","weights":{"crit":3,"default":1}},"single":{"concurrency":1,"mode":"strict","weights":{"serial":0,"serial2":0}}},"queues":["crit","default","serial","serial2"],"weights":[{"crit":3,"default":1},{"serial":0,"serial2":0}],"labels":[],"identity":"vm:24128:acf4dc59d44a","version":"8.1.7","embedded":false}`
)

func process(t *testing.T, rdb *redis.Client, id string, fields ...any) {
	t.Helper()
	harness.OK(t, rdb.SAdd(t.Context(), "processes", id).Err())
	harness.OK(t, rdb.HSet(t.Context(), id, fields...).Err())
}

func threeVersions(t *testing.T, rdb *redis.Client) {
	t.Helper()
	process(t, rdb, id6, "info", info6, "busy", 1, "beat", "1795224915.5", "quiet", "false", "rss", 1000, "rtt_us", 99)
	process(t, rdb, id7, "info", info7, "busy", 2, "beat", "1795225008.25", "quiet", "true", "rss", 2000, "rtt_us", 100)
	process(t, rdb, id8, "info", info8, "concurrency", 4, "busy", 2, "beat", "1795225102.9048576", "rtt_us", 106, "quiet", "false", "rss", 29476)
}

func TestProcessesOfAllVersions(t *testing.T) {
	i, rdb, _ := start(t)
	threeVersions(t, rdb)
	harness.OK(t, rdb.SAdd(t.Context(), "processes", "dead:1:x").Err())
	set := harness.Must(i.Processes(t.Context()))(t)
	crit := map[string]int{"crit": 3, "default": 1}
	serial := map[string]int{"serial": 0, "serial2": 0}
	queues := []string{"crit", "default", "serial", "serial2"}
	want := []*inspect.Process{
		{
			Identity: id7, Hostname: "vm", PID: 20684, Tag: "mytag", Version: "7.3.9", StartedAt: time.Unix(1795225007, 759457300).UTC(),
			Concurrency: 4, Queues: queues, Capsules: []inspect.Capsule{
				{Queues: queues[:2], Weights: crit}, {Queues: queues[2:], Weights: serial},
			},
			Busy: 2, Beat: time.Unix(1795225008, 250e6).UTC(), Stopping: true, RSS: 2000, RTT: 100 * time.Microsecond,
		},
		{
			Identity: id8, Hostname: "vm", PID: 24128, Tag: "mytag", Version: "8.1.7", StartedAt: time.Unix(1795225092, 901522000).UTC(),
			Concurrency: 4, Queues: queues, Capsules: []inspect.Capsule{
				{Name: "default", Concurrency: 3, Mode: "weighted", Queues: queues[:2], Weights: crit},
				{Name: "single", Concurrency: 1, Mode: "strict", Queues: queues[2:], Weights: serial},
			},
			Busy: 2, Beat: time.Unix(1795225102, 904857600).UTC(), RSS: 29476, RTT: 106 * time.Microsecond,
		},
		{
			Identity: id6, Hostname: "vm", PID: 481, Tag: "mytag", StartedAt: time.Unix(1795224910, 734372900).UTC(),
			Concurrency: 3, Queues: queues[:2],
			Busy: 1, Beat: time.Unix(1795224915, 500e6).UTC(), RSS: 1000, RTT: 99 * time.Microsecond,
		},
	}
	if diff := cmp.Diff(want, set, cmpopts.IgnoreUnexported(inspect.Process{}), cmpopts.IgnoreFields(inspect.Process{}, "Info"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if string(set[2].Info) != info6 {
		t.Errorf("info %s", set[2].Info)
	}
	harness.Equal(t, "are listed after the look, expected 4: it only reads", rdb.SCard(t.Context(), "processes").Val(), 4)
	one := harness.Must(i.Process(t.Context(), id8))(t)
	if diff := cmp.Diff(set[1], one, cmpopts.IgnoreUnexported(inspect.Process{})); diff != "" {
		t.Errorf("by identity:\n%s", diff)
	}
	harness.OK(t, rdb.HSet(t.Context(), "unlisted", "info", info6).Err())
	for _, id := range []string{"nobody", "unlisted", "processes"} {
		if _, err := i.Process(t.Context(), id); !errors.Is(err, inspect.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// forAMinute reports whether a key was given a minute, of which some seconds may be over.
func forAMinute(t *testing.T, rdb *redis.Client, key string) bool {
	ttl := rdb.TTL(t.Context(), key).Val()
	return ttl > 50*time.Second && ttl <= time.Minute
}

func TestBrokenProcessesDoNotHideTheOthers(t *testing.T) {
	i, rdb, _ := start(t)
	process(t, rdb, "a", "info", "{", "busy", "x", "beat", "never", "concurrency", 7)
	process(t, rdb, "b", "info", `{"pid":"5","queues":{},"labels":[1,"l"],"weights":[5,{"q":2}],"capsules":[],"started_at":null}`)
	process(t, rdb, "c", "info", info6)
	harness.OK(t, rdb.SAdd(t.Context(), "processes", "queues").Err())
	harness.OK(t, rdb.SAdd(t.Context(), "queues", "q").Err())
	set := harness.Must(i.Processes(t.Context()))(t)
	if len(set) != 3 || set[0].Concurrency != 7 || !set[0].Beat.IsZero() || !slices.Equal(set[1].Queues, []string{"q"}) || !slices.Equal(set[1].Labels, []string{"l"}) || set[2].PID != 481 {
		t.Errorf("got %+v", set)
	}
}

func TestSignals(t *testing.T) {
	i, rdb, _ := start(t)
	threeVersions(t, rdb)
	p := harness.Must(i.Process(t.Context(), id7))(t)
	harness.OK(t, p.Quiet(t.Context()))
	harness.OK(t, p.DumpThreads(t.Context()))
	harness.OK(t, p.Stop(t.Context()))
	key := id7 + "-signals"
	if got := rdb.LRange(t.Context(), key, 0, -1).Val(); !slices.Equal(got, []string{"TERM", "TTIN", "TSTP"}) || !forAMinute(t, rdb, key) {
		t.Errorf("got %v", got)
	}
	process(t, rdb, "e", "info", `{"identity":"e","embedded":true}`)
	e := harness.Must(i.Process(t.Context(), "e"))(t)
	for _, err := range []error{e.Quiet(t.Context()), e.Stop(t.Context())} {
		if !errors.Is(err, inspect.ErrEmbedded) {
			t.Errorf("got %v", err)
		}
	}
	harness.OK(t, e.DumpThreads(t.Context()))
	harness.EqualList(t, "an embedded one got", rdb.LRange(t.Context(), "e-signals", 0, -1).Val(), []string{"TTIN"})
}

func TestLeaderAndTree(t *testing.T) {
	i, rdb, _ := start(t)
	threeVersions(t, rdb)
	harness.OK(t, rdb.Set(t.Context(), "dear-leader", id7, 0).Err())
	for _, p := range harness.Must(i.Processes(t.Context()))(t) {
		one := harness.Must(i.Process(t.Context(), p.Identity))(t)
		if leads := p.Identity == id7; p.Leader != leads || one.Leader != leads {
			t.Errorf("%s: leader %v, %v", p.Identity, p.Leader, one.Leader)
		}
	}
	if _, err := i.Tree(t.Context(), id7); !errors.Is(err, inspect.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	harness.OK(t, rdb.Set(t.Context(), "troupe:tree:"+id7, `{"nodes":[]}`, time.Minute).Err())
	if tree := harness.Must(i.Tree(t.Context(), id7))(t); string(tree) != `{"nodes":[]}` {
		t.Errorf("got %s", tree)
	}
}

func TestWorksOfOldAndNewProcesses(t *testing.T) {
	i, rdb, _ := start(t)
	threeVersions(t, rdb)
	value := func(n, runAt int) string {
		return fmt.Sprintf(`{"queue":"crit","payload":%q,"run_at":%d}`, job(n, "default"), runAt)
	}
	work := func(key string, fields ...any) { harness.OK(t, rdb.HSet(t.Context(), key, fields...).Err()) }
	work(id6+":workers", "gk1", value(1, 1795225012))
	work(id7+":work", "t1", value(2, 1795225010), "t2", `{"queue":"b","payload":`+job(3, "b")+`,"run_at":1795225011}`)
	work(id8+":work", "t1", value(4, 1795225013), "t2", "{")
	work(id8+":workers", "t1", value(4, 1795225013)) // for old pages: not twice
	work("gone:1:x:work", "t1", value(5, 1))
	harness.OK(t, rdb.SAdd(t.Context(), "processes", "gone:1:x").Err())
	var got []string
	for _, w := range harness.Must(i.Works(t.Context()))(t) {
		got = append(got, fmt.Sprint(w.Process[:5], " ", w.Thread, " ", w.Queue, " ", w.RunAt.Unix(), " ", string(w.Job.Summary().Args)))
	}
	want := []string{
		`vm:24 t2  -62135596800 ["{"]`, `vm:20 t1 crit 1795225010 [2]`, `vm:20 t2 b 1795225011 [3]`,
		`vm:48 gk1 crit 1795225012 [1]`, `vm:24 t1 crit 1795225013 [4]`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
	if w := harness.Must(i.Works(t.Context()))(t)[1]; w.Process != id7 || w.Job.Raw != job(2, "default") {
		t.Errorf("found %+v", w)
	}
	if s := harness.Must(i.Stats(t.Context()))(t); s.WorkersSize != 5 {
		t.Errorf("got %+v", s)
	}
}
