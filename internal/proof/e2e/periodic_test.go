package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
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
		if seen[text] || tick.After(since) || rdb.ZScore(t.Context(), entry+":enqueued", text).Err() == redis.Nil {
			t.Errorf("number %d of the ticks %v: it is there twice, or has no mark, or was pushed after %s", i, ticks, since)
		}
		seen[text] = true
	}
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
		`troupe.yml:4: periodic.nightly.cron is "0 25 * * *", expected a cron line: hour "25": want 0 to 24`,
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
