package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/words"
)

// manual returns docs/configuration.md by headings.
func manual(t *testing.T) map[string]string {
	t.Helper()
	text := harness.Must(os.ReadFile("../../docs/configuration.md"))(t)
	parts := map[string]string{}
	heading := regexp.MustCompile(`(?m)^##+ (.*)$`)
	at := heading.FindAllStringSubmatchIndex(string(text), -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		parts[string(text[m[2]:m[3]])] = string(text[m[1]:end])
	}
	return parts
}

// The manual has a row for each key that there is, and for no other.
func TestManualHasEveryKey(t *testing.T) {
	parts := manual(t)
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")
	for heading, want := range map[string][]string{
		"Top level": settingNames(), "A capsule": capsuleSettings.keys(), "A strategy": strategySettings.keys(),
		"A shard": shardKeys(), "Poison pills": poisonSettings.keys(), "A handler": handlerSettings.keys(), "Limits of jobs": jobLimitSettings.keys(), "http": httpSettings.keys(),
		"Outboxes": outboxSettings.keys(),
	} {
		var got []string
		for _, m := range row.FindAllStringSubmatch(parts[heading], -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, code - manual +:\n%s", heading, diff)
		}
	}
}

func TestManualHasEveryForeignKey(t *testing.T) {
	_, list, _ := strings.Cut(manual(t)["A Sidekiq application's file"], "a meaning for Ruby only: ")
	list, _, _ = strings.Cut(list, ".")
	var got []string
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(list, -1) {
		got = append(got, m[1])
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(foreign)), got); diff != "" {
		t.Errorf("code - manual +:\n%s", diff)
	}
}

// So it has each key of a periodic job; some share a row.
func TestManualHasEveryKeyOfAPeriodicJob(t *testing.T) {
	var got []string
	for line := range strings.Lines(manual(t)["Periodic jobs"]) {
		if keys, ok := strings.CutPrefix(line, "| `"); ok {
			keys, _, _ = strings.Cut(keys, " |")
			for key := range strings.SplitSeq(keys, ", ") {
				got = append(got, strings.Trim(key, "`"))
			}
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(periodicSettings.keys(), got); diff != "" {
		t.Errorf("code - manual +:\n%s", diff)
	}
}

// The manual has the defaults of package limits, and what follows from them, and no other document
// of its own spells them.
func TestManualHasTheDefaults(t *testing.T) {
	parts := manual(t)
	text := parts["Top level"] + parts["A capsule"] + parts["A shard"] + parts["Poison pills"] + parts["The time that a stop takes"]
	row := func(key, value string) string { return fmt.Sprintf("(?m)^\\| `%s` \\|[^|]*\\| %s\\b", key, value) }
	for _, want := range []string{
		row("concurrency", strconv.Itoa(limits.Concurrency)), row("timeout", words.Seconds(limits.Timeout)),
		row("lease", words.Seconds(limits.Lease)), row("max_retries", strconv.Itoa(limits.Retries)),
		row("dead_max_jobs", strconv.Itoa(limits.DeadMax)), row("dead_timeout_in_seconds", words.Days(limits.DeadTimeout)),
		row("average_scheduled_poll_interval", words.Seconds(limits.PollEach)), row("recoveries", strconv.Itoa(limits.Recoveries)),
		"`timeout` plus 8 s after TERM at the latest, " + words.Seconds(limits.StopTime) + " by default",
		words.Seconds(limits.Grace) + " of grace", "the lease plus 15 s, " + words.Seconds(limits.RescueTime) + " by default",
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s", want)
		}
	}
	lease, rescue := words.Seconds(limits.Lease), words.Seconds(limits.RescueTime)
	spelled := regexp.MustCompile(`(?i)\blease\x60?,? \(?(of )?` + lease + `\b|\blease.{0,20}\b` + lease + ` by default|\b` + rescue + ` by default|within ` + rescue + `\b`)
	for _, name := range harness.Must(filepath.Glob("../../docs/*.md"))(t) {
		if filepath.Base(name) == "configuration.md" || filepath.Base(name) == "proof.md" { // which measures with leases of its own
			continue
		}
		for i, line := range strings.Split(string(harness.Must(os.ReadFile(name))(t)), "\n") {
			if s := spelled.FindString(line); s != "" {
				t.Errorf("%s:%d: %q, expected the lease without its default, which configuration.md has", name, i+1, s)
			}
		}
	}
}

// Words that are among the values of a key are those that the code takes.
func TestManualHasTheDefaultsAndWords(t *testing.T) {
	parts := manual(t)
	spec := defaultSpec()
	for _, row := range []string{
		"| `fetch` | " + strings.Join(fetchers, ", "),
		"| `intensity` | 0 or more | 20 |", "| `period` | span | 1 m |", "| `backoff` | `100ms..30s`, one span, or 0 | `100ms..5s` |",
		"| `jitter` | 0 to 1 | 0.2 |",
	} {
		if !strings.Contains(parts["Top level"]+parts["A strategy"], row) {
			t.Errorf("no row %s", row)
		}
	}
	if spec.Intensity != 20 || spec.Period.String() != "1m0s" || spec.Backoff.Jitter != 0.2 || spec.Backoff.Max.String() != "5s" {
		t.Errorf("the manual has other defaults than %+v", spec)
	}
}

// Every file that the manuals and the README show loads without a fault.
func TestFilesOfTheManuals(t *testing.T) {
	docs := harness.Must(filepath.Glob("../../docs/*.md"))(t)
	n := 0
	for _, name := range append(docs, "../../README.md") {
		text := harness.Must(os.ReadFile(name))(t)
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			n++
			if strings.HasPrefix(block[1], "# "+defaultScheduleFile) {
				var f File
				if err := parseSchedule(defaultScheduleFile, []byte(block[1]), &f); err != nil || len(f.Periodic) == 0 {
					t.Errorf("%s has a schedule with faults, or without jobs:\n%s%v", name, block[1], err)
				}
				continue
			}
			if f, err := Parse("troupe.yml", []byte(block[1]), ""); err != nil || len(f.Handlers) == 0 && len(f.Outboxes) == 0 {
				t.Errorf("%s has a file with faults, or without handlers:\n%s%v", name, block[1], err)
			}
		}
	}
	if n < 3 {
		t.Errorf("%d blocks of YAML", n)
	}
}
