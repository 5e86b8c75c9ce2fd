package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// withCron is the head of a script that has sidekiq-cron.
const withCron = `require "sidekiq/cron"
class Known; include Sidekiq::Worker; sidekiq_options queue: "known", retry: 7, backtrace: true; def perform(*) = nil; end
J = Sidekiq::Cron::Job
POLLER = Sidekiq::Cron::Poller.new({})
`

// periodicSite is an empty Redis for periodic jobs of the generation of sidekiq-cron that is here.
func periodicSite(t *testing.T) (*redis.Client, string, *inspect.Inspector) {
	t.Helper()
	redistest.NeedCron(t)
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, server.URL(0), inspect.New(rdb)
}

// idleDaemon starts a daemon that takes from no queue of the test.
func idleDaemon(t *testing.T, url string) *chaos.Process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "troupe.yml")
	harness.OK(t, os.WriteFile(file, []byte("handlers: {NoOp: {builtin: noop}}\nqueues: [nothing]\nconcurrency: 1\n"), 0o600))
	return procs.Troupe(t, []string{"TZ=UTC"}, "run", "--redis", url, "-C", file)
}

// leader starts such a daemon and waits until it leads.
func leader(t *testing.T, rdb *redis.Client, url string) *chaos.Process {
	t.Helper()
	p := idleDaemon(t, url)
	id := p.Ready()
	testkit.Await(t, "it leads", func() bool { return rdb.Get(t.Context(), keys.Poller).Val() == id })
	return p
}

// shapeOf is a job without what differs between two pushes, its fields sorted.
func shapeOf(t *testing.T, raw string) string {
	t.Helper()
	p := harness.Must(troupe.ParsePayload([]byte(raw)))(t)
	var fields []string
	for key := range p.Keys() {
		if v, _ := p.Get(key); !slices.Contains([]string{"jid", "created_at", "enqueued_at", "troupe_periodic", "troupe_tick"}, key) {
			fields = append(fields, key+"="+string(v))
		}
	}
	slices.Sort(fields)
	return strings.Join(fields, " ")
}

// Ruby has our periodic jobs as its own: lists, pushes, disables and deletes them.
func TestPeriodicRubyHasOurs(t *testing.T) {
	t.Parallel()
	rdb, url, looked := periodicSite(t)
	ours := []troupe.Periodic{
		{Name: "plain: one", Namespace: "", Cron: "0 4 * * * America/New_York", Class: "Plain", Args: []any{1, "ä", map[string]any{"a": nil}}, Queue: "q", Retries: troupe.Times(3), Description: "each night"},
		{Name: "dated", Cron: "0 4 * * * Europe/Berlin", Class: "Dated", DateArg: true},
		{Name: "odd", Cron: "every 7m", Class: "Odd"},
	}
	redistest.Ruby(t, url, withCron+`J.create(name: "theirs", cron: "0 5 * * *", class: "Known")`) // which says that it is of the old generation
	harness.OK(t, looked.SavePeriodic(t.Context(), ours...))
	got := redistest.RubyJSON[[]string](t, url, withCron+`show J.all.sort_by(&:name).map { |j| [j.name, j.cron, j.klass, j.status, j.description, j.valid?].join("|") }`)
	harness.EqualList(t, "what Ruby lists", got, []string{
		"dated|0 4 * * * Europe/Berlin|Dated|enabled||true", "odd|@every 7m0s|Odd|enabled||false",
		"plain: one|0 4 * * * America/New_York|Plain|enabled|each night|true", "theirs|0 5 * * *|Known|enabled||true",
	})
	redistest.Ruby(t, url, withCron+`J.find("plain: one").enque!; J.find("dated").enque!`)
	plain := rdb.LPop(t.Context(), "queue:q").Val()
	for _, name := range []string{"plain: one", "dated"} {
		j := harness.Must(looked.PeriodicJob(t.Context(), name, ""))(t)
		harness.Must(j.Push(t.Context()))(t)
	}
	harness.Equal(t, "the job as Ruby pushes it", shapeOf(t, plain), shapeOf(t, rdb.LPop(t.Context(), "queue:q").Val()))
	for i := range 2 {
		raw := rdb.LIndex(t.Context(), "queue:default", int64(i)).Val()
		p := harness.Must(troupe.ParsePayload([]byte(raw)))(t)
		var at []float64
		harness.OK(t, troupe.DecodeArgs(p.Args(), &at))
		if len(at) != 1 || time.Since(time.UnixMicro(int64(at[0]*1e6))).Abs() > time.Hour {
			t.Errorf("the dated job has %s", raw)
		}
	}
	redistest.Ruby(t, url, withCron+`J.find("dated").disable!; J.destroy("plain: one")`)
	all := harness.Must(looked.PeriodicJobs(t.Context()))(t)
	var names []string
	for _, j := range all {
		names = append(names, fmt.Sprint(j.Name, " ", j.Disabled, " ", j.Namespace))
	}
	harness.EqualList(t, "after Ruby's changes", names, []string{"dated true ", "odd false ", "theirs false "})
	harness.Equal(t, "Ruby keeps what is ours", rdb.HExists(t.Context(), "cron_job:dated", "troupe").Val(), true)
}

// We have Ruby's as ours: a daemon pushes them as Ruby does, once.
func TestPeriodicWeHaveRubys(t *testing.T) {
	t.Parallel()
	rdb, url, looked := periodicSite(t)
	redistest.Ruby(t, url, withCron+`
J.create(name: "known", cron: "* * * * * * UTC", class: "Known", args: [1, "ä", {"a" => 1.5}])
J.create(name: "dated", cron: "* * * * * * UTC", class: "Known", queue: "dated", date_as_argument: true)
J.create(name: "rails", cron: "* * * * * * UTC", class: "SomeJob", queue: "mail", active_job: true, queue_name_prefix: "pre", args: [1])
J.create(name: "unknown", cron: "* * * * * * UTC", class: "Unknown", queue: "unknown")
J.create(name: "off", cron: "* * * * * * UTC", class: "Known", queue: "off", status: "disabled")
J.find("known").enque!; J.find("rails").enque!`)
	wants := map[string]string{"known": rdb.LPop(t.Context(), "queue:known").Val(), "pre_mail": rdb.LPop(t.Context(), "queue:pre_mail").Val()}
	leader(t, rdb, url)
	for _, queue := range []string{"known", "dated", "pre_mail"} {
		testkit.Await(t, "two jobs in "+queue, func() bool { return rdb.LLen(t.Context(), keys.Queue(queue)).Val() >= 2 })
	}
	for queue, want := range wants {
		got := shapeOf(t, rdb.LIndex(t.Context(), keys.Queue(queue), 0).Val())
		if want = shapeOf(t, want); queue == "pre_mail" { // a UUID of each
			cut := func(s string) string {
				head, tail, _ := strings.Cut(s, `"job_id":"`)
				return head + tail[36:]
			}
			got, want = cut(got), cut(want)
		}
		harness.Equal(t, "a job of "+queue, got, want)
	}
	harness.Equal(t, "jobs of an entry that is disabled", rdb.LLen(t.Context(), "queue:off").Val(), 0)
	harness.Equal(t, "jobs of a class that only Ruby knows", rdb.LLen(t.Context(), "queue:unknown").Val(), 0)
	if j := harness.Must(looked.PeriodicJob(t.Context(), "off", ""))(t); j.Why != "it is disabled" {
		t.Errorf("why: %q", j.Why)
	}
	// what was disabled is silent, and enabling replays nothing
	before := rdb.ZCard(t.Context(), "cron_job:off:enqueued").Val()
	testkit.Await(t, "ticks of the disabled are marked", func() bool { return rdb.ZCard(t.Context(), "cron_job:off:enqueued").Val() > before })
	redistest.Ruby(t, url, withCron+`J.find("off").enable!; POLLER.enqueue`)
	testkit.Await(t, "ticks after it was enabled", func() bool { return rdb.LLen(t.Context(), "queue:off").Val() >= 2 })
	jobs, marks := int(rdb.LLen(t.Context(), "queue:off").Val()), int(rdb.ZCard(t.Context(), "cron_job:off:enqueued").Val())
	if jobs > marks-int(before) {
		t.Errorf("%d jobs, %d marks of which %d were of the disabled", jobs, marks, before)
	}
}

// Four daemons and three pollers of Ruby carry out the same ticks; daemons are killed. Each tick
// has one job.
func TestPeriodicRace(t *testing.T) {
	t.Parallel()
	rdb, url, looked := periodicSite(t)
	entries, seconds := harness.Effort(20, 100), 20
	var list []troupe.Periodic
	for i := range entries {
		list = append(list, troupe.Periodic{Name: fmt.Sprint("p", i), Cron: "* * * * * * UTC", Class: "P", Args: []any{i}, Queue: "sink", Missed: troupe.MissedAll, MissedMax: 1000})
	}
	redistest.Ruby(t, url, withCron+`J.create(name: "theirs", cron: "0 5 1 1 *", class: "Known")`)
	harness.OK(t, looked.SavePeriodic(t.Context(), list...))
	began := time.Now()
	for range 3 {
		cmd := exec.CommandContext(t.Context(), "ruby", "-W0", "-rsidekiq", "-e", `Sidekiq.configure_client { |c| c.redis = {url: ENV["REDIS_URL"]} }; Sidekiq.logger.level = Logger::ERROR
`+withCron+`loop { POLLER.enqueue; sleep 0.2 + rand }`)
		chaos.Launch(t, "poller of Ruby", cmd, "REDIS_URL="+url)
	}
	start := func() *chaos.Process { return idleDaemon(t, url) }
	daemons := []*chaos.Process{start(), start(), start(), start()}
	for kills := 0; time.Since(began) < time.Duration(seconds)*time.Second; {
		id := rdb.Get(t.Context(), keys.Poller).Val()
		for i, p := range daemons {
			if p.Running() && strings.Contains(id, fmt.Sprintf(":%d:", p.PID())) {
				p.Signal(syscall.SIGKILL)
				daemons[i] = start()
				kills++
			}
		}
		time.Sleep(1700 * time.Millisecond) // real time: the leader carries out some ticks
	}
	end := time.Now().Unix()
	ctx := context.Background()
	testkit.Await(t, "all ticks have their marks", func() bool {
		for i := range entries {
			marks := rdb.ZRangeWithScores(ctx, keys.PeriodicMarks(keys.PeriodicJob("", fmt.Sprint("p", i), false)), 0, -1).Val()
			if len(marks) == 0 || !contiguous(marks, end) {
				return false
			}
		}
		return true
	})
	harness.OK(t, rdb.Del(ctx, keys.PeriodicSet("")).Err()) // nobody carries out more
	harness.OK(t, rdb.Publish(ctx, keys.Wakeup, keys.PeriodicChanged).Err())
	settled := func() string { return fmt.Sprint(rdb.LLen(ctx, "queue:sink").Val()) }
	for was := ""; was != settled(); {
		was = settled()
		time.Sleep(1500 * time.Millisecond) // real time: what has begun ends
	}
	jobs, ticks := map[string]int{}, map[string]int{}
	for _, raw := range rdb.LRange(ctx, "queue:sink", 0, -1).Val() {
		p := harness.Must(troupe.ParsePayload([]byte(raw)))(t)
		jobs[string(p.Args())]++
		if at, ok := p.String("troupe_tick"); ok {
			ticks[string(p.Args())+at]++
		}
	}
	total := 0
	for i := range entries {
		marks := int(rdb.ZCard(ctx, keys.PeriodicMarks(keys.PeriodicJob("", fmt.Sprint("p", i), false))).Val())
		if n := jobs[fmt.Sprintf("[%d]", i)]; n != marks-1 { // the first is from before it was written
			t.Errorf("p%d: %d jobs of %d ticks", i, n, marks-1)
		}
		total += marks - 1
	}
	for tick, n := range ticks {
		if n > 1 {
			t.Errorf("%s: %d jobs", tick, n)
		}
	}
	t.Logf("%d ticks, %d of them by daemons", total, len(ticks))
	if len(ticks) == 0 {
		t.Error("no daemon has carried out a tick")
	}
}

// contiguous tells whether there is a mark for each second up to end.
func contiguous(marks []redis.Z, end int64) bool {
	have := map[string]bool{}
	for _, m := range marks {
		have[fmt.Sprint(m.Member)] = true
	}
	first, _ := time.Parse("2006-01-02T15:04:05Z", fmt.Sprint(marks[0].Member))
	for s := first.Unix(); s <= end; s++ {
		if !have[time.Unix(s, 0).UTC().Format("2006-01-02T15:04:05Z")] {
			return false
		}
	}
	return true
}
