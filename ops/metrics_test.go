package ops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// scrape is what a scrape of daemons reads.
func scrape(t *testing.T, daemons ...*actors.Daemon) string {
	t.Helper()
	w := httptest.NewRecorder()
	metricsHandler(daemons).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// promtool runs it with text as its standard input.
func promtool(t *testing.T, dir, text string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		redistest.Missing(t, err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "FAILED") {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

// series are the lines of an exposition that are no comment: a series and its value each.
func series(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if at := strings.LastIndexByte(line, ' '); !strings.HasPrefix(line, "#") && at > 0 {
			all[line[:at]] = strings.TrimSpace(line[at:])
		}
	}
	return all
}

// leads is the relay of an outbox with three rows.
type leads struct{}

func (leads) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (leads) Stats() actors.RelayStats {
	return actors.RelayStats{State: "leads", Pushed: 7, Bad: 2, Refused: 1, Waiting: 3, Oldest: time.Now().Add(-time.Hour)}
}

// world is a daemon whose jobs have ended in some ways.
func world(t *testing.T) *testkit.Kit {
	t.Helper()
	var r troupe.Registry
	for class, perform := range map[string]troupe.HandlerFunc{
		"Done":        func(context.Context, *troupe.Payload) error { return nil },
		"Fails":       func(context.Context, *troupe.Payload) error { return errors.New("secret text of an error") },
		"Panics":      func(context.Context, *troupe.Payload) error { panic("on purpose") },
		"Odd\"\n\xff": func(context.Context, *troupe.Payload) error { return nil },
	} {
		var o troupe.Options
		if class == "Done" {
			o.Limits = []troupe.Limit{{Name: "wide", AtOnce: 100}}
		}
		troupe.HandleClass(&r, class, perform, o)
	}
	k := testkit.Start(t, actors.Config{Redis: testkit.Redis(t), Registry: &r, Concurrency: 3, Logger: zerolog.Nop(), Tag: "secret tag",
		Periodic: []troupe.Periodic{{Name: "yearly", Cron: "@yearly", Class: "Done"}}, Outboxes: []actors.Outbox{{Relay: leads{}}},
	})
	for range 20 {
		for _, class := range []string{"Done", "Fails", "Panics", "No::Such"} {
			k.PushClass(class, nil)
		}
	}
	k.Await("all have ended and a beat was made", func() bool {
		m := k.Metrics()
		retried := uint64(0)
		for _, c := range m.Classes {
			retried += c.Moves["retried"]
		}
		restarts := 0
		for _, n := range k.Tree() {
			restarts += n.Restarts
		}
		return retried == 60 && k.Stats().Processed == 80 && m.RedisRTT > 0 && restarts == 20
	})
	return k
}

func TestScrapeOfADaemon(t *testing.T) {
	k := world(t)
	text := scrape(t, k.Daemon)
	got := series(text)
	for name, want := range map[string]string{
		`troupe_job_runs_total{class="Done",outcome="done"}`:                "20",
		`troupe_job_runs_total{class="Fails",outcome="error"}`:              "20",
		`troupe_job_runs_total{class="Fails",outcome="done"}`:               "0",
		`troupe_job_runs_total{class="Panics",outcome="panic"}`:             "20",
		`troupe_job_runs_total{class="_other",outcome="error"}`:             "20",
		`troupe_job_runs_total{class="\"Odd\\\"\\n\\xff\"",outcome="done"}`: "0",
		`troupe_job_moves_total{class="Panics",move="retried"}`:             "20",
		`troupe_job_moves_total{class="_other",move="retried"}`:             "20",
		`troupe_job_run_seconds_bucket{class="Done",le="+Inf"}`:             "20",
		`troupe_job_run_seconds_count{class="Done"}`:                        "20",
		`troupe_job_run_seconds_count{class="Fails"}`:                       "0",
		`troupe_actor_restarts_total{capsule="default",role="processor"}`:   "20",
		`troupe_actor_crashes_total{capsule="",role="launcher"}`:            "0",
		`troupe_processors{capsule="default",state="crashed"}`:              "0",
		`troupe_restart_budget_used_ratio{supervisor="launcher/default"}`:   "0",
		`troupe_periodic_ticks_total{entry="yearly",outcome="missed"}`:      "0",
		`troupe_periodic_missed_ticks_total{entry="_other"}`:                "0",
		`troupe_outbox_relay{outbox="main",state="leads"}`:                  "1",
		`troupe_outbox_relay{outbox="main",state="no_redis"}`:               "0",
		`troupe_outbox_rows{outbox="main"}`:                                 "3",
		`troupe_outbox_refused_rows{outbox="main"}`:                         "1",
		`troupe_outbox_pushed_total{outbox="main"}`:                         "7",
		`troupe_outbox_bad_total{outbox="main"}`:                            "2",
		`troupe_redis_up`:                                                   "1",
		`troupe_redis_outage_seconds_total`:                                 "0",
		`troupe_phase{phase="running"}`:                                     "1",
		`troupe_phase{phase="quiet"}`:                                       "0",
		`troupe_build_info{version="` + actors.Version + `"}`:               "1",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	if n, err := strconv.Atoi(got[`troupe_fetched_jobs_total{queue="default"}`]); err != nil || n < 80 { // some go back and come again
		t.Errorf("%d jobs fetched, %v", n, err)
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if got[name] == "" {
			t.Errorf("no %s", name)
		}
	}
	for _, secret := range []string{"secret", "No::Such", k.Identity()} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is exposed", secret)
		}
	}
	promtool(t, "", text, "check", "metrics")
}

// Each metric of the table is exposed by a real daemon, and nothing else by our prefix.
func TestAllMetricsAreExposed(t *testing.T) {
	got := names(scrape(t, world(t).Daemon))
	want := map[string]bool{}
	for _, m := range daemonMetrics {
		want[m.name] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("exposed %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// names are the names of our metrics in an exposition.
func names(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (troupe_\S+)`).FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

func TestSeveralDaemonsAreTold(t *testing.T) {
	a, b := world(t), world(t)
	got := series(scrape(t, a.Daemon, b.Daemon))
	for _, shard := range []string{"0", "1"} {
		if n := got[`troupe_job_runs_total{class="Done",outcome="done",shard="`+shard+`"}`]; n != "20" {
			t.Errorf("shard %s: %s runs", shard, n)
		}
	}
}

// At the limits a daemon has less than 9,000 series; beyond them it has no more, and what is
// beyond is added up.
func TestSeriesAreBounded(t *testing.T) {
	for _, factor := range []int{1, 3} {
		t.Run(fmt.Sprint(factor), func(t *testing.T) {
			var r troupe.Registry
			for i := range factor * 199 {
				troupe.HandleClass(&r, fmt.Sprintf("Class%05d", i), troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
			}
			first, second := make(actors.Strict, 60), make(actors.Strict, factor*100-40)
			for i := range first {
				first[i] = fmt.Sprintf("first%d", i)
			}
			for i := range second {
				second[i] = fmt.Sprintf("second%d", i)
			}
			copy(second, first[:20]) // they share some
			k := testkit.Start(t, actors.Config{
				Redis: testkit.Redis(t), Registry: &r, Logger: zerolog.Nop(),
				Capsules: []actors.Capsule{{Concurrency: 1, Queues: first}, {Name: "second", Concurrency: 1, Queues: second}},
			})
			for _, class := range append(r.Classes(), "Unknown") {
				k.PushClass(class, nil, client.Queue(first[0]))
			}
			k.PushClass("Class00000", nil, client.Queue(second[len(second)-1]))
			total := uint64(factor*199 + 2)
			k.Await("all have run", func() bool { return k.Stats().Processed == total })
			text := scrape(t, k.Daemon)
			got := series(text)
			if len(got) > 9000 || len(got) < 8000 {
				t.Errorf("%d series", len(got))
			}
			classes, queues, runs, times := map[string]bool{}, map[string]bool{}, uint64(0), uint64(0)
			for name, text := range got {
				v, _ := strconv.ParseUint(text, 10, 64)
				switch {
				case strings.HasPrefix(name, jobRuns.name):
					classes[strings.Split(name, `"`)[1]] = true
					runs += v
				case strings.HasPrefix(name, jobTimes.name+"_count"):
					times += v
				case strings.HasPrefix(name, fetched.name):
					queues[name] = true
				}
			}
			if len(classes) != 200 || len(queues) != 100 || runs != total || times != total-1 {
				t.Errorf("%d classes, %d queues, %d runs, %d of them timed; want 200, 100, %d, %d", len(classes), len(queues), runs, times, total, total-1)
			}
			harness.Equal(t, "other runs with an error", got[`troupe_job_runs_total{class="_other",outcome="error"}`], "1")
			harness.Equal(t, "other runs that are done", got[`troupe_job_runs_total{class="_other",outcome="done"}`], fmt.Sprint((factor-1)*199))
			if v := got[`troupe_fetched_jobs_total{queue="_other"}`]; factor > 1 && v != "1" || factor == 1 && v != "1" {
				t.Errorf("%s jobs of other queues", v)
			}
		})
	}
}

// A tick that a daemon pushes is counted for its entry.
func TestTicksAreExposed(t *testing.T) {
	var r troupe.Registry
	troupe.HandleClass(&r, "Done", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
	k := testkit.Start(t, actors.Config{
		Redis: testkit.Redis(t), Registry: &r, Logger: zerolog.Nop(), Periodic: []troupe.Periodic{{Name: "each second", Cron: "* * * * * *", Class: "Done"}},
	})
	k.Await("a tick has pushed", func() bool { return k.Stats().Processed > 0 })
	k.Await("it is exposed", func() bool {
		got := series(scrape(t, k.Daemon))
		return got[`troupe_periodic_ticks_total{entry="each second",outcome="pushed"}`] != "0" && got["troupe_periodic_late_seconds_count"] != "0"
	})
}

// A scrape asks Redis nothing.
func TestScrapeWithoutRedis(t *testing.T) {
	server := testkit.NewServer(t)
	k := testkit.Start(t, actors.Config{Redis: server.Client, Logger: zerolog.Nop()})
	server.Kill()
	k.Await("redis is away", func() bool { return k.Stats().RedisAway })
	got := series(scrape(t, k.Daemon))
	if got["troupe_redis_up"] != "0" || got["troupe_redis_outage_seconds_total"] == "0" {
		t.Errorf("up %s, away for %s s", got["troupe_redis_up"], got["troupe_redis_outage_seconds_total"])
	}
}
