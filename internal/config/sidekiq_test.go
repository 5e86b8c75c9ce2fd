package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Files as Sidekiq applications have them. Beside each is a golden file of what
// it loads as, in two environments. To write them anew: TROUPE_UPDATE=1 go test ./config
func TestSidekiqFiles(t *testing.T) {
	for _, name := range sidekiqFiles(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			var got strings.Builder
			for _, environment := range []string{"development", "production"} {
				fmt.Fprintf(&got, "%s:\n", environment)
				describe(&got, parseFile(t, name, environment))
			}
			golden(t, name, got.String())
		})
	}
}

func sidekiqFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/sidekiq/*.yml")
	if err != nil || len(files) < 16 {
		t.Fatal(files, err)
	}
	return files
}

func parseFile(t *testing.T, name, environment string) *File {
	t.Helper()
	data := harness.Must(os.ReadFile(name))(t)
	f := harness.Must(Parse("config/sidekiq.yml", data, environment))(t)
	return f
}

// describe writes what the file said, one thing a line.
func describe(b *strings.Builder, f *File) {
	line := func(said bool, format string, args ...any) {
		if said {
			fmt.Fprintf(b, "  "+format+"\n", args...)
		}
	}
	line(f.Concurrency > 0, "concurrency %d", f.Concurrency)
	line(f.Timeout > 0, "timeout %s", f.Timeout)
	line(f.Verbose, "verbose")
	line(f.Tag != "", "tag %s", f.Tag)
	line(f.Labels != nil, "labels %q", f.Labels)
	line(f.Environment != "", "environment %s", f.Environment)
	line(f.MaxRetries != 0, "max_retries %d", f.MaxRetries)
	line(f.DeadMax > 0, "dead_max_jobs %d", f.DeadMax)
	line(f.DeadTimeout > 0, "dead_timeout %s", f.DeadTimeout)
	line(f.PollInterval > 0, "poll_interval_average %s", f.PollInterval)
	line(f.PollIntervalPerProcess > 0, "average_scheduled_poll_interval %s", f.PollIntervalPerProcess)
	line(f.Redis != "", "redis %s", f.Redis)
	queues := func(q fetch.Queues) string {
		if q == nil {
			return "not said"
		}
		return queuesText(q)
	}
	line(true, "queues %s", queues(f.Queues))
	for _, c := range f.Capsules {
		line(true, "capsule %s: %d, %s", c.Name, c.Concurrency, queues(c.Queues))
	}
	s := Settings{File: *f}
	s.Capsules = []capsule{{Queues: f.Queues}}
	for _, l := range f.JobLimits {
		line(true, "limit %s: %s", l.Name, s.limitText(l))
	}
	for _, w := range f.Warnings {
		line(true, "warning: %s", w)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	name = strings.TrimSuffix(name, ".yml") + ".golden"
	if os.Getenv("TROUPE_UPDATE") != "" {
		harness.OK(t, os.WriteFile(name, []byte(got), 0o600))
	}
	want := harness.Must(os.ReadFile(name))(t)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// rubyOptions is what Sidekiq's own parser makes of a file; its queues are there
// as often as their weight says.
type rubyOptions struct {
	Concurrency, Timeout, MaxRetries int
	Verbose                          bool
	Tag                              string
	Labels, Queues                   []string
	Strict                           bool
}

// The same files through Ruby's Sidekiq: what it takes out of them is what Parse
// does. Only what Sidekiq 7 has added is left to the golden files.
func TestSidekiqFilesLoadAsInRuby(t *testing.T) {
	ruby, err := exec.LookPath("ruby")
	if err != nil {
		redistest.Missing(t, err)
	}
	type question struct{ File, Environment string }
	var all []question
	for _, name := range sidekiqFiles(t) {
		if data, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		} else if strings.HasPrefix(string(data), "# since Sidekiq 7") {
			continue
		}
		all = append(all, question{name, "development"}, question{name, "production"}, question{name, "qa"})
	}
	asked := harness.Must(json.Marshal(all))(t)
	cmd := exec.CommandContext(t.Context(), ruby, "-W0", "-EUTF-8:UTF-8", "-e", `
		require "sidekiq/cli"
		require "json"
		cli = Sidekiq::CLI.instance
		puts JSON.generate(JSON.parse($stdin.read).map { |q|
		  cli.instance_variable_set(:@environment, q["Environment"])
		  o = cli.send(:parse_config, q["File"])
		  {Concurrency: o[:concurrency].to_i, Timeout: o[:timeout].to_i, MaxRetries: o[:max_retries] || 25,
		   Verbose: !!o[:verbose], Tag: o[:tag].to_s, Labels: o[:labels].to_a, Queues: o[:queues] || ["default"],
		   Strict: o[:strict] != false}
		})`)
	var errs strings.Builder
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(asked)), &errs
	out, err := cmd.Output()
	if err != nil && strings.Contains(errs.String(), "(LoadError)") {
		redistest.Missing(t, err)
	} else if err != nil {
		t.Fatalf("ruby: %v\n%s", err, errs.String())
	}
	var answers []rubyOptions
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(all) || len(answers) < 30 {
		t.Fatal(len(answers), err)
	}
	for i, q := range all {
		if diff := cmp.Diff(answers[i], asRuby(parseFile(t, q.File, q.Environment))); diff != "" {
			t.Errorf("%s, %s, Ruby's - and ours +:\n%s", q.File, q.Environment, diff)
		}
	}
}

func asRuby(f *File) rubyOptions {
	o := rubyOptions{
		Concurrency: f.Concurrency, Timeout: int(f.Timeout.Seconds()), MaxRetries: 25, Verbose: f.Verbose, Tag: f.Tag,
		Labels: append([]string{}, f.Labels...), Strict: true, Queues: []string{"default"},
	}
	if f.MaxRetries != 0 {
		o.MaxRetries = max(f.MaxRetries, 0)
	}
	if f.Queues != nil {
		o.Queues, o.Strict = nil, f.Queues.List().Mode() == "strict"
		weights := f.Queues.List().Weights()
		for _, name := range f.Queues.List().Names() {
			for range max(weights[name], 1) {
				o.Queues = append(o.Queues, name)
			}
		}
	}
	return o
}

// A file that needs Ruby tells what to do, once, and its other faults with it.
func TestSidekiqFilesWithERB(t *testing.T) {
	files, err := filepath.Glob("testdata/erb/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			harness.OK(t, err)
			_, err = Parse("config/sidekiq.yml", data, "production")
			faults, ok := errors.AsType[Faults](err)
			if !ok {
				t.Fatalf("no faults: %v", err)
			}
			golden(t, name, faults.Error()+"\n")
		})
	}
}
