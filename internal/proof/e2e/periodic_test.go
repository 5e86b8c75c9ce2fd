package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// periodicConfig has a periodic job for people who write no Go. %s is a file.
const periodicConfig = `
log: json
tag: shop
queues: [low]
handlers:
  Note: {exec: [/bin/sh, -c, 'printf "%%s\n" "$(cat)" >>%s']}
periodic:
  each second: {cron: "* * * * * * UTC", class: Note, args: [hello, {n: 1}], queue: low, missed: all}
  at rest: {cron: "* * * * * * UTC", class: Note, args: [rest], queue: low, status: disabled}
`

// A file is all that is needed: a daemon writes its entries, pushes their jobs at their ticks, each once, and runs
// them; what is disabled marks its ticks only. All of it is read with commands of Redis.
func TestPeriodicJobsOfAFile(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	out := filepath.Join(t.TempDir(), "jobs")
	p := daemon(t, url, fmt.Sprintf(periodicConfig, out))
	ran := func() (ticks []string) {
		text, _ := os.ReadFile(out)
		for line := range strings.Lines(string(text)) {
			job := parsed(t, strings.TrimSpace(line))
			name, _ := job.String("troupe_periodic")
			tick, _ := job.String("troupe_tick")
			if name != "each second" || string(job.Args()) != `["hello",{"n":1}]` || job.Queue() != "low" {
				t.Fatalf("ran %s", line)
			}
			ticks = append(ticks, tick)
		}
		return ticks
	}
	testkit.Await(t, "three ticks have run", func() bool { return len(ran()) >= 3 })

	const entry, rests = "cron_job:default:each second", "cron_job:default:at rest"
	do := func(args ...any) any {
		t.Helper()
		return harness.Must(rdb.Do(t.Context(), args...).Result())(t)
	}
	for _, want := range [][2]any{
		{do("SISMEMBER", "cron_jobs:default", entry), int64(1)},
		{do("HGET", entry, "cron"), "* * * * * * UTC"},
		{do("HGET", entry, "klass"), "Note"},
		{do("HGET", entry, "args"), `["hello",{"n":1}]`},
		{do("HGET", entry, "status"), "enabled"},
		{do("HGET", rests, "status"), "disabled"},
		{do("EXISTS", rests+":jid_history"), int64(0)},
	} {
		if want[0] != want[1] {
			t.Errorf("Redis has %v, expected %v", want[0], want[1])
		}
	}
	testkit.Await(t, "the ticks of the disabled are marked", func() bool { return do("ZCARD", rests+":enqueued").(int64) >= 2 })

	off := procs.Troupe(t, nil, "periodic", "disable", "each second", "--redis", url)
	harness.Equal(t, "troupe periodic disable", off.Exit(soon), 0)
	since := rdb.Time(t.Context()).Val()
	testkit.Await(t, "ticks after that are marked", func() bool {
		last := rdb.ZRevRangeWithScores(t.Context(), entry+":enqueued", 0, 0).Val()
		return len(last) == 1 && last[0].Score > float64(since.Unix()+1)
	})
	p.Stop(soon)
	clean(t, rdb)
	ticks, seen := ran(), map[string]bool{}
	for i, text := range ticks {
		tick := harness.Must(time.Parse(time.RFC3339, text))(t)
		if seen[text] || tick.After(since) || rdb.ZScore(t.Context(), entry+":enqueued", text).Err() == redis.Nil { //nolint:errorlint // the reply as it is
			t.Errorf("number %d of the ticks %v: it is there twice, or has no mark, or was pushed after %s", i, ticks, since)
		}
		seen[text] = true
	}
}

// overlapConfig has a job that takes longer than the time between two ticks. %s is a file.
const overlapConfig = `
log: json
log_level: debug
tag: shop
concurrency: 5
handlers:
  Slow: {exec: [/bin/sh, -c, 'echo begin >>%[1]s; sleep 2.5; echo end >>%[1]s']}
periodic:
  slow: {cron: "* * * * * * UTC", class: Slow, overlap: skip}
`

// Ticks that come while the job of an earlier one is there push nothing, and say so: in the log, and by troupe periodic.
func TestTicksOfAFileThatOverlap(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	out := filepath.Join(t.TempDir(), "jobs")
	p := daemon(t, url, fmt.Sprintf(overlapConfig, out))
	ran := func() string {
		text, _ := os.ReadFile(out)
		return strings.ReplaceAll(string(text), "\n", " ")
	}
	testkit.Await(t, "three jobs have begun", func() bool { return strings.Count(ran(), "begin") >= 3 })
	p.AwaitLog("tick of a periodic job: overlapped")
	var shown string
	testkit.Await(t, "the command says why", func() bool {
		show := procs.Troupe(t, nil, "periodic", "show", "slow", "--redis", url)
		harness.Equal(t, "troupe periodic show", show.Exit(soon), 0)
		shown = show.Stdout()
		return strings.Contains(shown, "waited or ran still at its tick of") // else its last tick has pushed
	})
	if !strings.Contains(shown, "overlap") || !strings.Contains(shown, "overlapped") {
		t.Errorf("troupe periodic show: %s", shown)
	}
	p.Stop(soon)
	if text := ran(); strings.Contains(text, "begin begin") {
		t.Errorf("two ran at once: %s", text)
	}
	clean(t, rdb)
}

// A file with entries that mean nothing starts nothing and writes nothing: each fault names line, entry, field and
// value.
func TestAFileWithBadPeriodicJobs(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	p := daemonSoon(t, url, `handlers: {Report: {builtin: noop}}
periodic:
  good: {cron: "@daily", class: Report}
  nightly: {cron: "0 25 * * *", class: Report}
  weekly: {cron: "@weekly"}
  poll: {cron: "every 15m", class: Report, missed: sometimes}
  odd: {cron: "@daily", class: Report, quue: low}
`)
	harness.Equal(t, "exit code", p.Exit(soon), 1)
	text := p.Stderr()
	for _, want := range []string{
		`troupe.yml:4: periodic.nightly.cron is "0 25 * * *", expected a cron line: hour "25": expected 0 to 24`,
		`troupe.yml:5: periodic.weekly.class is missing`,
		`troupe.yml:6: periodic.poll.missed is "sometimes", expected one of skip, last, all`,
		`troupe.yml:7: periodic.odd.quue is no known key, expected queue`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("stderr has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "periodic.good") {
		t.Errorf("the good one is told:\n%s", text)
	}
	harness.Equal(t, "entries that are written", rdb.Exists(t.Context(), "cron_jobs:default", "cron_jobs").Val(), 0)
}

// An old leader that stood still pushes nothing when it wakes: each tick has one job. When somebody wipes Redis the
// entries are there again.
func TestPeriodicJobsOfAPausedLeader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	const file = `
log: json
queues: [nothing]
handlers: {Tick: {builtin: noop}}
periodic: {t: {cron: "* * * * * * UTC", class: Tick, queue: sink, missed: all}}
`
	pushed := func() (ticks []string) {
		for _, raw := range rdb.LRange(t.Context(), "queue:sink", 0, -1).Val() {
			tick, _ := parsed(t, raw).String("troupe_tick")
			ticks = append(ticks, tick)
		}
		return ticks
	}
	grows := func(what string) {
		t.Helper()
		n := len(pushed())
		testkit.Await(t, what, func() bool { return len(pushed()) >= n+3 })
	}
	all := map[string]*chaos.Process{}
	for range 2 {
		p := daemon(t, server.URL(0), file)
		all[p.Ready()] = p
	}
	leader := ""
	testkit.Await(t, "one leads", func() bool { leader = rdb.Get(t.Context(), keys.Poller).Val(); return all[leader] != nil })
	grows("it pushes")
	all[leader].Pause()
	testkit.Await(t, "another leads", func() bool {
		now := rdb.Get(t.Context(), keys.Poller).Val()
		return now != leader && all[now] != nil
	})
	grows("that pushes")
	all[leader].Resume()
	grows("both are there")
	seen := map[string]bool{}
	for _, tick := range pushed() {
		if seen[tick] {
			t.Errorf("%s has two jobs", tick)
		}
		seen[tick] = true
	}
	marks := rdb.ZRange(t.Context(), "cron_job:default:t:enqueued", 1, -1).Val() // the first is from before it was written
	for i, mark := range marks {
		if !seen[mark] && i < len(marks)-1 {
			t.Errorf("%s has a mark and no job", mark)
		}
	}

	harness.OK(t, rdb.FlushAll(t.Context()).Err())
	testkit.Await(t, "the entry is there again", func() bool { return rdb.HGet(t.Context(), "cron_job:default:t", "klass").Val() == "Tick" })
	grows("it pushes again")
}

// During a deploy the old and the new processes run side by side: what the new configuration says holds, and the old
// process takes nothing back. Entries of people and of another tag stay.
func TestPeriodicJobsDuringADeploy(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	const head = "\nlog: json\nqueues: [nothing]\nhandlers: {C: {builtin: noop}}\n"
	crons := func() map[string]string {
		all := map[string]string{}
		for _, key := range rdb.SMembers(t.Context(), "cron_jobs:default").Val() {
			all[rdb.HGet(t.Context(), key, "name").Val()] = rdb.HGet(t.Context(), key, "cron").Val()
		}
		return all
	}
	written := func(want map[string]string) {
		t.Helper()
		testkit.Await(t, fmt.Sprintf("the entries are %v", want), func() bool { return maps.Equal(crons(), want) })
	}
	add := procs.Troupe(t, nil, "periodic", "add", "people's", "C", "--cron", "0 1 1 1 * UTC", "--redis", url)
	harness.Equal(t, "troupe periodic add", add.Exit(soon), 0)
	daemon(t, url, head+`tag: other
periodic: {theirs: {cron: "0 2 1 1 * UTC", class: C}}
`)
	old := daemon(t, url, head+`tag: shop
periodic:
  gone: {cron: "0 3 1 1 * UTC", class: C}
  kept: {cron: "0 4 1 1 * UTC", class: C}
`)
	all := map[string]string{"people's": "0 1 1 1 * UTC", "theirs": "0 2 1 1 * UTC", "gone": "0 3 1 1 * UTC", "kept": "0 4 1 1 * UTC"}
	written(all)
	daemon(t, url, head+`tag: shop
periodic:
  kept: {cron: "0 5 1 1 * UTC", class: C}
  new: {cron: "0 6 1 1 * UTC", class: C}
`)
	delete(all, "gone")
	all["kept"], all["new"] = "0 5 1 1 * UTC", "0 6 1 1 * UTC"
	written(all)
	old.AwaitLog("another process with this tag has other periodic jobs: a newer release, or one that needs a tag of its own")
	harness.Equal(t, "after the old one has looked", maps.Equal(crons(), all), true)
}
