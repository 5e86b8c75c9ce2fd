package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/handler"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
)

var ignoreLines = cmp.Options{
	cmpopts.IgnoreUnexported(File{}, capsule{}, handlerEntry{}, secretText{}),
	cmpopts.EquateEmpty(), cmp.AllowUnexported(troupe.Share{}),
}

func parseOK(t *testing.T, text, environment string) *File {
	t.Helper()
	f, err := Parse("t.yml", []byte(text), environment)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return f
}

// weights are names and their weights, in turn.
func weights(namesAndWeights ...any) (l fetch.WeightedList) {
	for pair := range slices.Chunk(namesAndWeights, 2) {
		l = append(l, fetch.QueueWeight{Queue: pair[0].(string), Weight: pair[1].(int)})
	}
	return l
}

func TestParseEveryKey(t *testing.T) {
	got := parseOK(t, `
concurrency: 0x10
timeout: 8
verbose: yes
tag: app
labels: [a, b]
environment: production
queues: [[critical, 3], default]
capsules:
  ledger: {concurrency: 1, queues: [ledger], unknown: leave}
max_retries: 5
dead_max_jobs: 1_000
dead_timeout_in_seconds: 3600
poll_interval_average: 2.5
average_scheduled_poll_interval: 7
redis: rediss://u:p@host:6380/2
lease: 20s
timestamps: ms
ops: ":9433"
log: json
log_level: WARN
fetch: basic
unknown: {queue: default_ruby}
strategy: {rest_for_one: {intensity: 5, period: 30, backoff: 1s..2m, jitter: 0.5, replace: true}}
metrics: 7
periodic: elsewhere
workers_key: on
max_iteration_runtime: 300
handlers:
  NoOp: {builtin: noop, take: 12.5%, rest_queue: low_ruby}
  "Billing::Charge": {exec: [/usr/local/bin/thumb, --stdin, -n, 5], timeout: 2m, expire_after: 90m, drop_expired: true, result: stdout, result_for: 10m, unique: {by: [0, 1.id], until: period, for: 2h, across: true}}
  Short: {http: "https://hooks.internal/jobs"}
  Long:
    timeout: 10s
    http:
      url: {env: HOOK_URL}
      headers: {X-Key: 5, Authorization: {file: /run/key}}
      secret: s3
`, "")
	want := &File{
		Concurrency: 16, Timeout: 8 * time.Second, Verbose: true, Tag: "app", Labels: []string{"a", "b"},
		Environment: "production", Queues: weights("critical", 3, "default", 0),
		Capsules:   []capsule{{Name: "ledger", Concurrency: 1, Queues: fetch.Strict{"ledger"}, Unknown: &actors.Unknown{Leave: true}}},
		Unknown:    &actors.Unknown{Queue: "default_ruby"},
		MaxRetries: 5, DeadMax: 1000, DeadTimeout: time.Hour,
		PollInterval: 2500 * time.Millisecond, PollIntervalPerProcess: 7 * time.Second,
		Redis: "rediss://u:p@host:6380/2", Lease: 20 * time.Second, Timestamps: troupe.TimestampsMillis,
		Ops:       ":9433",
		LogFormat: "json", LogLevel: "warn", Fetch: "basic",
		Strategy: &strategyEntry{"rest_for_one", supervisor.Spec{
			Intensity: 5, Period: 30 * time.Second, Replace: true,
			Backoff: supervisor.Backoff{Min: time.Second, Max: 2 * time.Minute, Jitter: 0.5},
		}},
		Metrics: "7", WorkersKey: true, MaxIterationRuntime: 5 * time.Minute, PeriodicElsewhere: true,
		Handlers: []handlerEntry{
			{Class: "NoOp", Builtin: "noop", Take: troupe.Percent(12.5), RestQueue: "low_ruby"},
			{Class: "Billing::Charge", Exec: []string{"/usr/local/bin/thumb", "--stdin", "-n", "5"}, Timeout: 2 * time.Minute, ExpireAfter: 90 * time.Minute, DropExpired: true, Result: true, ResultFor: 10 * time.Minute, Unique: &troupe.Unique{By: []string{"0", "1.id"}, Until: troupe.UntilPeriod, For: 2 * time.Hour, Across: true}},
			{Class: "Short", HTTP: &httpEntry{URL: secretText{Value: "https://hooks.internal/jobs"}}},
			{Class: "Long", Timeout: 10 * time.Second, HTTP: &httpEntry{
				URL:     secretText{Env: "HOOK_URL"},
				Headers: []httpHeader{{"X-Key", secretText{Value: "5"}}, {"Authorization", secretText{File: "/run/key"}}},
				Secret:  secretText{Value: "s3"},
			}},
		},
	}
	if diff := cmp.Diff(want, got, ignoreLines); diff != "" {
		t.Error(diff)
	}
}

// A file as Rails applications have it.
const sidekiqFile = `---
:concurrency: 5
:pidfile: tmp/pids/sidekiq.pid
:require: ./app.rb
:strict: false
# :max_retries: <%= 3 %>
.shared: &shared
  :concurrency: 7
  :queues: &queues
    - [:critical, 3]
    - low
staging:
  <<: *shared
  :timeout: 10
production:
  <<: *shared
  :concurrency: 20
development:
:queues:
  - default
  - :mailers
`

func TestParseSectionsOfASidekiqFile(t *testing.T) {
	for _, tt := range []struct {
		environment string
		concurrency int
		timeout     time.Duration
		queues      fetch.Queues
	}{
		{"", 5, 0, fetch.Strict{"default", "mailers"}},
		{"production", 20, 0, weights("critical", 3, "low", 0)},
		{"staging", 7, 10 * time.Second, weights("critical", 3, "low", 0)},
		{"other", 5, 0, fetch.Strict{"default", "mailers"}},
	} {
		f := parseOK(t, sidekiqFile, tt.environment)
		if f.Concurrency != tt.concurrency || f.Timeout != tt.timeout || !cmp.Equal(f.Queues, tt.queues) {
			t.Errorf("%q: %d %s %v", tt.environment, f.Concurrency, f.Timeout, f.Queues)
		}
		var warned []string
		for _, w := range f.Warnings {
			warned = append(warned, w.Field)
		}
		if got := strings.Join(warned, " "); got != "pidfile require" {
			t.Errorf("%q: warnings for %q", tt.environment, got)
		}
	}
}

// As in Sidekiq, where it is a name and no more.
func TestParseTheFilesOwnEnvironmentChoosesNoSection(t *testing.T) {
	const text = "environment: staging\nstaging: {concurrency: 3}\nproduction: {concurrency: 4}\ndevelopment: {concurrency: 5}\n"
	for environment, want := range map[string]int{"": 5, "production": 4, "staging": 3} {
		f := parseOK(t, text, environment)
		if f.Concurrency != want || f.Environment != "staging" {
			t.Errorf("%q: %d, %s", environment, f.Concurrency, f.Environment)
		}
		if warned := len(f.Warnings) == 1 && f.Warnings[0].Field == "staging"; warned != (environment != "staging") {
			t.Errorf("%q: warnings %v", environment, f.Warnings)
		}
	}
}

func TestParseQueues(t *testing.T) {
	tests := map[string]fetch.Queues{
		`low`:                               fetch.Strict{"low"},
		`[b, a]`:                            fetch.Strict{"b", "a"},
		`[[b], [a]]`:                        fetch.Strict{"b", "a"},
		`[[b, 0], a]`:                       fetch.Strict{"b", "a"},
		`[[critical, 3], default]`:          weights("critical", 3, "default", 0),
		`["critical,3", "low, 2"]`:          weights("critical", 3, "low", 2),
		`["a,1", "b,1"]`:                    weights("a", 1, "b", 1),
		`{critical: 3, default: 2, low: 1}`: weights("critical", 3, "default", 2, "low", 1),
		`{:a: , b: 0}`:                      fetch.Strict{"a", "b"},
		"\n- [:critical, 3]\n- :low":        weights("critical", 3, "low", 0),
		"\n- - critical\n  - 3\n- low":      weights("critical", 3, "low", 0),
		`[a, b, a]`:                         fetch.Strict{"a", "b"},
		`[a, [b, 2], a, [b, 3]]`:            weights("a", 0, "b", 2, "a", 0, "b", 3),
		`[":a", ":b,2"]`:                    weights(":a", 0, ":b", 2),
		`[5, 1.5, true]`:                    fetch.Strict{"5", "1.5", "true"},
		``:                                  nil,
	}
	for text, want := range tests {
		if f := parseOK(t, "queues: "+text+"\n", ""); !cmp.Equal(f.Queues, want) {
			t.Errorf("%s: %#v, want %#v", text, f.Queues, want)
		}
	}
}

func TestParseCapsules(t *testing.T) {
	want := []capsule{
		{Name: "unsafe", Concurrency: 1, Queues: fetch.Strict{"unsafe"}},
		{Name: "bulk", Queues: weights("a", 2, "b", 1)},
	}
	for _, text := range []string{
		":capsules:\n  :unsafe:\n    :concurrency: 1\n    :queues:\n      - unsafe\n  bulk: {queues: {a: 2, b: 1}}\n",
		"capsules:\n- {name: unsafe, concurrency: 1, queues: [unsafe]}\n- {name: bulk, queues: {a: 2, b: 1}}\n",
	} {
		f := parseOK(t, text, "")
		if diff := cmp.Diff(want, f.Capsules, ignoreLines); diff != "" {
			t.Error(diff)
		}
	}
}

func TestParseRedisMap(t *testing.T) {
	if f := parseOK(t, ":redis:\n  :url: redis://h/1\n", ""); f.Redis != "redis://h/1" {
		t.Error(f.Redis)
	}
}

func TestParseEmptyFiles(t *testing.T) {
	for _, text := range []string{"", "---\n", "# nothing\n", "\ufeff", "~\n", "{}\n", "\r\n"} {
		parseOK(t, text, "")
	}
	if f := parseOK(t, "\ufeffconcurrency: 3\r\ntag: x\r\n", ""); f.Concurrency != 3 || f.Tag != "x" {
		t.Error(f)
	}
}

// Each file of testdata/faults has its faults, as Error prints them, in a file
// beside it. To write them anew: TROUPE_UPDATE=1 go test ./config
func TestParseFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.yml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			harness.OK(t, err)
			_, err = Parse(filepath.Base(name), data, "production")
			faults, ok := errors.AsType[Faults](err)
			if !ok {
				t.Fatalf("no faults: %v", err)
			}
			golden(t, name, faults.Error()+"\n")
		})
	}
}

func TestParseHostileFiles(t *testing.T) {
	deep := map[string]string{
		"flow lists":  "a: " + strings.Repeat("[", 100_000),
		"flow maps":   strings.Repeat("{a: ", 50_000),
		"block lists": strings.Repeat("- ", 100_000) + "a",
		"indentation": func() string {
			var b strings.Builder
			for i := range 600 {
				b.WriteString(strings.Repeat(" ", i) + "a:\n")
			}
			return b.String()
		}(),
		"tags":    "a: " + strings.Repeat("!a ", 50_000) + "b",
		"anchors": "a: " + strings.Repeat("&a ", 50_000) + "b",
		"size":    "a: " + strings.Repeat("x", 300_000),
		"bytes":   "a: \xff\n",
		"cycle":   "a: &x [*x]\n",
		"laughs": "a: &a [x,x,x,x,x,x,x,x,x]\n" + func() string {
			var b strings.Builder
			for c := 'b'; c < 'z'; c++ {
				p := string(c - 1)
				b.WriteString(string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+p+",", 8) + "*" + p + "]\n")
			}
			return b.String()
		}() + "queues: *y\n",
	}
	for name, text := range deep {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := Parse("t.yml", []byte(text), "")
			if err == nil {
				t.Error("accepted")
			} else if len(err.Error()) > 20_000 {
				t.Errorf("%d bytes of error", len(err.Error()))
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(sidekiqFile))
	files, _ := filepath.Glob("testdata/*/*.yml")
	for _, name := range files {
		if data, err := os.ReadFile(name); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f.yml", data, "production")
		if err != nil {
			faults, ok := errors.AsType[Faults](err)
			if !ok || len(faults) == 0 {
				t.Fatalf("%T without faults", err)
			}
			last := strings.Count(strings.ReplaceAll(string(data), "\r", "\n"), "\n") + 1
			for _, f := range faults {
				if f.Line < 0 || f.Line > last || f.Field == "" || f.Value == "" || f.Want == "" {
					t.Fatalf("fault %#v of %d lines", f, last)
				}
			}
			return
		}
		all := append([]capsule{{Name: "default", Queues: file.Queues}}, file.Capsules...)
		for _, s := range append([]capsule{{Strategy: file.Strategy}}, file.Capsules...) {
			if _, err := s.Strategy.build(); err != nil {
				t.Fatalf("accepted, but %v", err)
			}
		}
		for _, c := range all {
			if c.Queues != nil {
				harness.OK(t, limits.Queues(c.Queues.List().Names()))
			}
			if c.Concurrency < 0 || c.Name == "" {
				t.Fatalf("%#v", c)
			}
		}
		for _, h := range file.Handlers {
			kinds := 0
			for _, is := range []bool{h.Builtin != "", len(h.Exec) > 0, h.HTTP != nil} {
				if is {
					kinds++
				}
			}
			if h.Class == "" || kinds != 1 {
				t.Fatalf("%#v", h)
			}
			if u := h.HTTP; u != nil && u.URL.literal() {
				if _, err := handler.NewHTTP(u.options(h.Timeout, nil)); err != nil {
					t.Fatalf("accepted, but %v", err)
				}
			}
		}
	})
}
