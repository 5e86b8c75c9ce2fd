package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/bench/internal/contender"
	"github.com/troupehq/troupe/bench/internal/result"
	"github.com/troupehq/troupe/bench/internal/scenario"
	"github.com/troupehq/troupe/bench/internal/server"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// The workers of a measurement are this binary.
func TestMain(m *testing.M) {
	contender.Child()
	os.Exit(m.Run())
}

// budget is something that can be counted, so that a slow machine does not
// change it much. Above the limit the test fails; goal is where it is to go.
type budget struct {
	scenario, kase, contender string
	m                         result.Metric
	limit, goal               float64
}

var budgets = []budget{
	{result.Drain, "25 processors", "troupe", result.Trips, 0.02, 0.02},
	{result.Concurrency, "25, three queues", "troupe", result.Trips, 0.02, 0.02},
	{result.Cost, "25 processors", "troupe", result.Commands, 0.04, 0.04}, // in one trip a script
	{result.Cost, "25 processors", "troupe", result.Allocs, 10, 10},
	{result.Cost, "25 processors", "troupe-raw", result.Allocs, 8, 8},
	{result.Failures, "25 processors", "troupe", result.Trips, 0.4, 0.4},
	{result.Schedule, "25 processors", "troupe", result.Trips, 0.15, 0.15},
	{result.Limits, "5 at once, 1 process", "troupe", result.Commands, 5, 2.5},
	{result.Limits, "5 at once, 1 process", "troupe", result.Refused, 1.1, 1}, // once, and then let in
	{result.Limits, "5 at once, 4 processes", "troupe", result.Commands, 6, 3},
	{result.Limits, "5 at once, 4 processes", "troupe", result.Refused, 1.1, 1},
	{result.Latency, "1 process", "troupe", result.Commands, 5, 5},
	{result.Latency, "3 processes", "troupe", result.Commands, 10, 5},
	{result.Idle, "one queue", "troupe", result.TripsS, 5.5, 4},
	{result.Idle, "one queue", "troupe", result.CommandsS, 6.5, 5},
	{result.Idle, "one queue", "troupe", result.CallsS, 15, 12},
	{result.Idle, "30 queues", "troupe", result.TripsS, 18, 12},
	{result.Idle, "30 queues", "troupe", result.CommandsS, 24, 16},
	{result.Idle, "one queue, 5,000 scheduled", "troupe", result.CommandsS, 6.5, 5},
	{result.Idle, "one queue, 5,000 scheduled", "troupe", result.CallsS, 20, 18},
	{result.Enqueue, "single", "troupe", result.Trips, 1.05, 1.05},
	{result.Enqueue, "parallel", "troupe", result.Trips, 0.5, 0.5},
	{result.Enqueue, "bulk", "troupe", result.Trips, 0.02, 0.02},
}

// check fails if the count is above its limit three times: noise only ever adds.
func (b budget) check(t *testing.T, set *result.Set) {
	t.Helper()
	for try := 1; ; try++ {
		row := set.Find(b.scenario, b.kase, b.contender)
		if !row.Has(b.m) {
			t.Errorf("%s, %s: no %s of %s", b.scenario, b.kase, b.m.Title, b.contender)
			return
		}
		got := row.Median(b.m)
		what := fmt.Sprintf("%s, %s, %s: %s %s", b.scenario, b.kase, b.contender, result.Format(got), b.m.Title)
		switch {
		case got > b.limit && try < 3:
			t.Logf("%s, once more", what)
			set = short(t, "-only", b.contender, b.scenario)
			continue
		case got > b.limit:
			t.Errorf("%s, expected at most %s", what, result.Format(b.limit))
		case got > b.goal:
			t.Logf("%s, to become %s", what, result.Format(b.goal))
		}
		return
	}
}

// short calls the driver in its short form.
func short(t *testing.T, args ...string) *result.Set {
	t.Helper()
	file := filepath.Join(t.TempDir(), "results.json")
	if err := run(t.Context(), append([]string{"-short", "-o", file}, args...), io.Discard, logger{t}); err != nil {
		t.Fatal(err)
	}
	set, err := result.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestShortForm runs every scenario with every contender, small: each must end
// with each job run exactly once. Figures that depend on the machine are told and
// not judged.
func TestShortForm(t *testing.T) {
	if err := server.RedisMissing(); err != nil {
		redistest.Missing(t, err)
	}
	temp := t.TempDir()
	if err := os.Chmod(filepath.Dir(temp), 0o755); err != nil { // PostgreSQL runs as somebody else
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	set := short(t)
	var table strings.Builder
	set.WriteText(&table)
	t.Log(table.String())

	t.Run("nothing is left behind", func(t *testing.T) {
		left, err := os.ReadDir(temp)
		if err != nil || len(left) > 0 {
			t.Errorf("in the temporary directory: %v, %v", left, err)
		}
		// a poll: nothing tells of another process
		for end := time.Now().Add(time.Minute); len(processesOf(t, temp)) > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("processes: %q", processesOf(t, temp))
			}
		}
	})
	t.Run("every scenario has its rows", func(t *testing.T) { complete(t, set) })
	t.Run("counts are within their budgets", func(t *testing.T) {
		for _, b := range budgets {
			b.check(t, set)
		}
	})
}

// processesOf are the command lines of the processes that were started from a directory.
func processesOf(t *testing.T, dir string) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if line, _ := os.ReadFile(path); strings.Contains(string(line), dir) { // it may have ended
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// complete fails for a contender that was left out though its parts are there,
// and, where nothing may be skipped, for missing parts.
func complete(t *testing.T, set *result.Set) {
	for _, left := range set.Left {
		if os.Getenv("CI") != "" || os.Getenv("TROUPE_NO_SKIP") != "" {
			t.Errorf("left out: %s", left)
		}
	}
	for _, s := range scenario.All() {
		rows := set.Of(s.Name)
		if len(rows) < 2 {
			t.Errorf("%s has %d rows", s.Name, len(rows))
		}
		for _, r := range rows {
			for _, m := range []result.Metric{result.Rate, result.P50} {
				if r.Has(m) && r.Median(m) <= 0 {
					t.Errorf("%s, %s, %s: %s is %v", s.Name, r.Case, r.Contender, m.Title, r.Median(m))
				}
			}
		}
	}
	for _, c := range contender.All() {
		if c.Missing != nil && c.Missing() != nil {
			continue
		}
		if _, ok := set.About[c.Name]; !ok {
			t.Errorf("%s took part in nothing", c.Name)
		}
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	for _, args := range [][]string{{"nonsense"}, {"-only", "nobody", "drain"}, {"-rounds", "many"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("bench %v was accepted", args)
		}
	}
}

// logger writes the driver's lines to the log of the test.
type logger struct{ t *testing.T }

func (l logger) Write(line []byte) (int, error) {
	l.t.Log(strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}
