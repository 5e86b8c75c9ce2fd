package config

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
)

// inDir makes a working directory with files, given as name, text, name, text.
func inDir(t *testing.T, files ...string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shop")
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(dir, files[i])
		harness.OK(t, os.MkdirAll(filepath.Dir(name), 0o750))
		harness.OK(t, os.WriteFile(name, []byte(files[i+1]), 0o600))
	}
	harness.OK(t, os.MkdirAll(dir, 0o750))
	t.Chdir(dir)
}

func vars(m map[string]string) func(string) string {
	return func(name string) string { return m[name] }
}

const noop = "handlers: {NoOp: {builtin: noop}}\n"

func load(t *testing.T, flags Flags, env map[string]string) *Settings {
	t.Helper()
	s := harness.Must(Load(flags, vars(env)))(t)
	return s
}

func TestLoadDefaults(t *testing.T) {
	inDir(t, "troupe.yml", noop)
	s := load(t, Flags{}, nil)
	if s.Path != "troupe.yml" || s.RedisURL != "redis://localhost:6379/0" || s.Environment != "development" ||
		s.Tag != "shop" || s.Level != zerolog.InfoLevel || s.LogFormat != "" {
		t.Errorf("%+v", s)
	}
	want := []capsule{{Name: "default", Queues: fetch.Strict{"default"}}}
	if diff := gocmp.Diff(want, s.Capsules, ignoreLines); diff != "" {
		t.Error(diff)
	}
}

func TestLoadFindsTheFile(t *testing.T) {
	inDir(t, "config/sidekiq.yml", noop, "other.yml", noop)
	if s := load(t, Flags{}, nil); s.Path != "config/sidekiq.yml" {
		t.Error(s.Path)
	}
	if s := load(t, Flags{File: "other.yml"}, nil); s.Path != "other.yml" {
		t.Error(s.Path)
	}
}

func TestLoadPrecedence(t *testing.T) {
	const file = noop + "concurrency: 4\ntimeout: 9\ntag: filetag\nredis: redis://file/1\nqueues: [f]\nenvironment: fileenv\n" +
		"production: {max_retries: 3}\n"
	env := map[string]string{
		"RAILS_MAX_THREADS": "7", "REDIS_URL": "redis://env/2", "RAILS_ENV": "production", "RACK_ENV": "no",
		"DEBUG_INVOCATION": "1",
	}
	flags := Flags{
		Concurrency: 2, Timeout: time.Second, Tag: "flagtag", Redis: "redis://flag/3", Environment: "flagenv",
		Queues: fetch.Strict{"q"},
	}
	type result struct {
		Concurrency int
		Timeout     time.Duration
		Tag, Redis  string
		Environment string
		Queues      fetch.Queues
		MaxRetries  int
		Level       zerolog.Level
	}
	for _, tt := range []struct {
		name  string
		flags Flags
		file  string
		env   map[string]string
		want  result
	}{
		{"flags", flags, file, env, result{2, time.Second, "flagtag", "redis://flag/3", "flagenv", fetch.Strict{"q"}, 0, zerolog.DebugLevel}},
		{"file", Flags{}, file, env, result{4, 9 * time.Second, "filetag", "redis://file/1", "production", fetch.Strict{"f"}, 3, zerolog.DebugLevel}},
		{"file alone", Flags{}, file + "log_level: warn\n", nil, result{4, 9 * time.Second, "filetag", "redis://file/1", "fileenv", fetch.Strict{"f"}, 0, zerolog.WarnLevel}},
		{"environment", Flags{}, noop, env, result{7, 0, "shop", "redis://env/2", "production", fetch.Strict{"default"}, 0, zerolog.DebugLevel}},
		{"verbose over log_level", Flags{Verbose: true}, noop + "log_level: error\n", nil, result{0, 0, "shop", "redis://localhost:6379/0", "development", fetch.Strict{"default"}, 0, zerolog.DebugLevel}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inDir(t, "troupe.yml", tt.file)
			s := load(t, tt.flags, tt.env)
			got := result{s.Capsules[0].Concurrency, s.Timeout, s.Tag, s.RedisURL, s.Environment, s.Capsules[0].Queues, s.MaxRetries, s.Level}
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLoadCapsuleDefaultIsAlwaysThere(t *testing.T) {
	inDir(t, "troupe.yml", noop+"concurrency: 3\ncapsules: {ledger: {concurrency: 1, queues: [ledger]}}\n")
	s := load(t, Flags{}, nil)
	want := []capsule{
		{Name: "default", Concurrency: 3, Queues: fetch.Strict{"default"}},
		{Name: "ledger", Concurrency: 1, Queues: fetch.Strict{"ledger"}},
	}
	if diff := gocmp.Diff(want, s.Capsules, ignoreLines); diff != "" {
		t.Error(diff)
	}
	inDir(t, "troupe.yml", noop+"capsules: [{name: ledger, queues: [l]}, {name: default, queues: [a]}]\n")
	s = load(t, Flags{Concurrency: 8}, nil)
	if c := s.Capsules[1]; len(s.Capsules) != 2 || c.Concurrency != 8 || !gocmp.Equal(c.Queues, fetch.Queues(fetch.Strict{"a"})) {
		t.Errorf("%+v", s.Capsules)
	}
	// what it says itself counts, as in Sidekiq; a flag counts more
	inDir(t, "troupe.yml", noop+"concurrency: 3\nqueues: [top]\ncapsules: {default: {queues: [own]}}\n")
	for flag, want := range map[string]string{"": "own", "flag": "flag"} {
		var flags Flags
		if flag != "" {
			flags.Queues = fetch.Strict{flag}
		}
		s = load(t, flags, nil)
		if c := s.Capsules[0]; c.Concurrency != 3 || !gocmp.Equal(c.Queues, fetch.Queues(fetch.Strict{want})) {
			t.Errorf("-q %q: %+v", flag, s.Capsules)
		}
		if len(s.Warnings) != 1 || s.Warnings[0].Field != "queues" || s.Warnings[0].Line != 3 {
			t.Errorf("warnings %v", s.Warnings)
		}
	}
}

func TestLoadRedisProvider(t *testing.T) {
	inDir(t, "troupe.yml", noop)
	s := load(t, Flags{}, map[string]string{"REDIS_PROVIDER": "TOGO", "TOGO": "redis://togo/4", "REDIS_URL": "redis://no"})
	if s.RedisURL != "redis://togo/4" {
		t.Error(s.RedisURL)
	}
}

func TestLoadFaults(t *testing.T) {
	tests := []struct {
		name, file string
		flags      Flags
		env        map[string]string
		want       string
	}{
		{"no file", "", Flags{}, nil, `configuration file (-C) is missing, expected troupe.yml, config/sidekiq.yml or one given with -C FILE, with at least one class, like handlers: {NoOp: {builtin: noop}}`},
		{"missing file", noop, Flags{File: "no.yml"}, nil, `configuration file (-C) is "no.yml", expected a file that can be read (no such file or directory)`},
		{"no handlers", "concurrency: 5\n", Flags{}, nil, `troupe.yml: handlers is missing, expected at least one class, like handlers: {NoOp: {builtin: noop}}`},
		{"empty handlers", "handlers: {}\nlog: xml\n", Flags{}, nil, "troupe.yml: handlers is missing, expected at least one class, like handlers: {NoOp: {builtin: noop}}\n" +
			`troupe.yml:2: log is "xml", expected one of json, console`},
		{"wrong handlers", "handlers: 5\n", Flags{}, nil, `troupe.yml:1: handlers is "5", expected a map of handlers by class`},
		{"no program", "handlers: {A: {exec: [no-such-program-here]}}\n", Flags{}, nil, `troupe.yml:1: handlers.A.exec is "no-such-program-here", expected a program that can be run (executable file not found in $PATH)`},
		{"threads", noop, Flags{}, map[string]string{"RAILS_MAX_THREADS": "five"}, `RAILS_MAX_THREADS is "five", expected a whole number from 1 to 10000`},
		{"redis url", noop, Flags{}, map[string]string{"REDIS_URL": "http://u:secret@h"}, `REDIS_URL is "http://***@h", expected redis://[user:password@]host[:port][/db], rediss://…, unix:///path or redis+cluster://host:port (unknown scheme)`},
		{"redis flag", noop, Flags{Redis: "h:6379"}, nil, `--redis is "h:6379", expected redis://[user:password@]host[:port][/db], rediss://…, unix:///path or redis+cluster://host:port (the scheme is missing: write redis://h:6379)`},
		{"provider", noop, Flags{}, map[string]string{"REDIS_PROVIDER": "redis://u:secret@h"}, `REDIS_PROVIDER is "redis://***@h", expected the name of the variable that holds the URL, not a URL`},
		{"all at once", "handlers:\n  A: {exec: [no-such-program-here]}\ntimeout: 0\n", Flags{}, map[string]string{"RAILS_MAX_THREADS": "0"}, "RAILS_MAX_THREADS is \"0\", expected a whole number from 1 to 10000\n" +
			"troupe.yml:2: handlers.A.exec is \"no-such-program-here\", expected a program that can be run (executable file not found in $PATH)\n" +
			"troupe.yml:3: timeout is \"0\", expected seconds (more than 0) or a duration like 30s or 2m"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.file == "" {
				inDir(t)
			} else {
				inDir(t, "troupe.yml", tt.file)
			}
			_, err := Load(tt.flags, vars(tt.env))
			if err == nil {
				t.Fatal("no error")
			}
			if diff := gocmp.Diff(tt.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseQueuesOfFlags(t *testing.T) {
	q, err := ParseQueues("-q", []string{"critical,3", "default"})
	if want := weights("critical", 3, "default", 0); err != nil || !gocmp.Equal(q, fetch.Queues(want)) {
		t.Errorf("%v, %v", q, err)
	}
	if q, err := ParseQueues("-q", nil); q != nil || err != nil {
		t.Errorf("%v, %v", q, err)
	}
	_, err = ParseQueues("-q", []string{"a,b", "", "a"})
	if err == nil || !strings.HasPrefix(err.Error(), `-q[0] is "b", expected a weight`) || strings.Count(err.Error(), "\n") != 1 {
		t.Error(err)
	}
}

func TestDaemonConfig(t *testing.T) {
	inDir(t, "troupe.yml", `
handlers:
  NoOp: {builtin: noop, timeout: 5}
  Shell: {exec: [sh, -c, "exit 0"], timeout: 7}
timeout: 3
labels: [x]
max_retries: 4
dead_max_jobs: 5
dead_timeout_in_seconds: 6
poll_interval_average: 7
average_scheduled_poll_interval: 8
max_iteration_runtime: 10
metrics: off
workers_key: true
lease: 9
timestamps: ms
`)
	s := load(t, Flags{}, nil)
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	c := harness.Must(s.Daemon(rdb, zerolog.Nop(), io.Discard))(t)
	harness.Check(t, c.Validate())
	if got := c.Registry.Classes(); strings.Join(got, " ") != "NoOp Shell" {
		t.Error(got)
	}
	if e, _ := c.Registry.Lookup("NoOp"); e.Options.Timeout != 5*time.Second {
		t.Error(e.Options.Timeout)
	}
	if c.Timeout != 3*time.Second || c.MaxRetries != 4 || c.DeadMax != 5 || c.DeadTimeout != 6*time.Second ||
		c.PollInterval != 7*time.Second || c.PollIntervalPerProcess != 8*time.Second || c.Lease != 9*time.Second ||
		c.MaxIterationRuntime != 10*time.Second || c.Metrics != "off" || !c.WorkersKey ||
		c.Strategy.String() != supervisor.Default().String() || c.Capsules[0].Strategy.String() != c.Strategy.String() || c.Capsules[0].Fetch != nil ||
		c.Timestamps != s.Timestamps || c.Tag != "shop" || len(c.Labels) != 1 || len(c.Capsules) != 1 {
		t.Errorf("%+v", c)
	}
	e, _ := c.Registry.Lookup("Shell")
	if e.Options.Timeout != 0 {
		t.Error("the program's timeout is given to the daemon, too")
	}
}

func TestDaemonStrategies(t *testing.T) {
	inDir(t, "troupe.yml", noop+`
strategy: {all_for_one: {intensity: 3, period: 5}}
concurrency: 3
capsules:
  default: {strategy: &s {rest_for_one: {intensity: 0}}}
  a: {strategy: *s}
  b: {queues: [b]}
`)
	s := load(t, Flags{}, nil)
	if s.Capsules[0].Concurrency != 3 {
		t.Error("a strategy of the capsule default hides the top level's concurrency")
	}
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	for range 2 {
		c := harness.Must(s.Daemon(rdb, zerolog.Nop(), io.Discard))(t)
		harness.Check(t, c.Validate())
		want := []string{"all_for_one, 3 restarts in 5s, backoff 100ms..5s, jitter 0.2", "rest_for_one, 0 restarts in 1m0s, backoff 100ms..5s, jitter 0.2", "rest_for_one, 0 restarts in 1m0s, backoff 100ms..5s, jitter 0.2"}
		for i, got := range []*supervisor.Strategy{c.Strategy, c.Capsules[0].Strategy, c.Capsules[1].Strategy} {
			if got.String() != want[i] {
				t.Errorf("strategy %d: %s", i, got)
			}
		}
		harness.Equal(t, "a capsule without a strategy has", c.Capsules[2].Strategy.String(), supervisor.Default().String())
	}
}

// What a strategy of the file does not say is as it would be without one.
func TestStrategyDefaultsAreTheDaemons(t *testing.T) {
	for _, text := range []string{"one_for_one", "{one_for_one: }", "{one_for_one: {}}", "{one_for_one: {intensity: , backoff: , jitter: , replace: }}"} {
		f := parseOK(t, "strategy: "+text+"\n", "")
		got, err := f.Strategy.build()
		if err != nil || got.String() != supervisor.Default().String() {
			t.Errorf("%s: %v, %v", text, f.Strategy, err)
		}
	}
	for text, want := range map[string]supervisor.Backoff{
		"0": {Min: -1, Jitter: 0.2}, "2": {Min: 2 * time.Second, Max: 2 * time.Second, Jitter: 0.2},
		"0.5..2m": {Min: 500 * time.Millisecond, Max: 2 * time.Minute, Jitter: 0.2},
	} {
		if f := parseOK(t, "strategy: {one_for_one: {backoff: "+text+"}}\n", ""); f.Strategy.Spec.Backoff != want {
			t.Errorf("backoff %s: %+v", text, f.Strategy.Spec.Backoff)
		}
	}
}

func TestFetchIsChosenByFileAndCapsule(t *testing.T) {
	inDir(t, "troupe.yml", noop+"fetch: basic\ncapsules: {a: {fetch: reliable}, b: {}}\n")
	s := load(t, Flags{}, nil)
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	c := harness.Must(s.Daemon(rdb, zerolog.Nop(), io.Discard))(t)
	for i, durable := range []bool{false, true, false} {
		make := c.Capsules[i].Fetch
		if make == nil {
			make = fetch.NewReliable // as actors.Config says
		}
		f, err := make(fetch.Env{Redis: rdb, Identity: "h:1:a", Capsule: c.Capsules[i].Name, Queues: fetch.Strict{"q"}, Lease: time.Minute})
		harness.OK(t, err)
		if f.Durable() != durable {
			t.Errorf("capsule %s: durable %v", c.Capsules[i].Name, f.Durable())
		}
	}
}

func TestNoRetries(t *testing.T) {
	for text, want := range map[string]int{"max_retries: 0\n": -1, "max_retries: 1\n": 1, "max_retries:\n": 0, "": 0} {
		if f := parseOK(t, text, ""); f.MaxRetries != want {
			t.Errorf("%q: %d, want %d", text, f.MaxRetries, want)
		}
	}
}
