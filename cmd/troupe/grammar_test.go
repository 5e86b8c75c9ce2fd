package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// What is no command, no flag, no value or one argument too many is answered with what may be meant.
func TestWhatMayBeMeant(t *testing.T) {
	t.Parallel()
	_, url := redistest.New(t)
	for line, want := range map[string]string{
		"quees":                          `there is no command "troupe quees", expected troupe queues`,
		"help quees":                     `there is no command "troupe quees", expected troupe queues`,
		"jobs lst":                       `there is no command "troupe jobs lst", expected troupe jobs list`,
		"pause critical":                 `there is no command "troupe pause", expected troupe queues pause`,
		"resume critical":                `there is no command "troupe resume", expected troupe queues unpause`,
		"queues resum low":               `expected troupe queues unpause`,
		"queues frobnicate":              `expected one of clear, list, pause, show, unpause`,
		"stats --jsn":                    `troupe stats has no flag --jsn, did you mean --json?`,
		"jobs list dead --classs=A":      `did you mean --class?`,
		"push A --quue=x":                `did you mean --queue? (write -- before`,
		"stats -z":                       `troupe stats has no flag -z, see troupe stats --help`,
		"stats --frobnicate":             `troupe stats has no flag --frobnicate, see troupe stats --help`,
		"stats --json=perhaps":           `--json is "perhaps", expected true or false`,
		"jobs list":                      `got 0 arguments, expected: troupe jobs list SET|held|running|queue:NAME`,
		"jobs cancel":                    `got 0 arguments, expected: troupe jobs cancel [SET|running|queue:NAME] JID`,
		"jobs cancel ded d1":             `(did you mean dead?)`,
		"jobs list ded":                  `(did you mean dead?)`,
		"jobs retry deadd x":             `(did you mean dead?)`,
		"jobs list dead --limit -1":      `--limit is "-1", expected a whole number from 0`,
		"audit --limit -1":               `--limit is "-1", expected a whole number from 0`,
		"jobs retry dead x --rate -1":    `--rate is "-1", expected a whole number from 0`,
		"audit --outcome refsued":        `(did you mean refused?)`,
		"stats --args hid":               `(did you mean hide?)`,
		"run --concurrency 0":            `--concurrency is "0", expected a whole number from 1 to`,
		"configure a -c 0":               `--concurrency is "0", expected a whole number from 1 to`,
		"configure a":                    `nothing to change is given, expected --concurrency or --queue`,
		"ps --watch=0":                   `--watch is "0", expected seconds (more than 0) or a duration`,
		"queues --over=-1":               `--over is "-1", expected 0, seconds (more than 0) or a duration`,
		"push A --in soon":               `--in is "soon", expected seconds`,
		"push A --at soon":               `--at is "soon", expected a time like`,
		"jobs reschedule retry x":        `expected one of the two`,
		"jobs reschedule retry x --in 0": `--in is "0", expected seconds`,
		"stats --redis 127.0.0.1:6379":   `--redis is "127.0.0.1:6379", expected redis://`,
		"stats --redis localhost:6379/1": `(the scheme is missing: write redis://localhost:6379/1)`,
	} {
		words := strings.Fields(line)
		if !strings.Contains(line, "--redis") && strings.HasPrefix(line, "jobs ") {
			words = append(words, "--redis", url)
		}
		got := call(t.Context(), words...)
		if got.code != 1 || !strings.Contains(got.err, want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("troupe %s: %s, expected %s", line, got, want)
		}
	}
	if got := call(t.Context(), "resume", "--help"); got.out != "" || !strings.Contains(got.err, "expected troupe queues unpause") {
		t.Errorf("help of no command: %s", got)
	}
}

// No command takes an empty argument, as of a variable of a shell that is not set, for a name.
func TestNoArgumentIsEmpty(t *testing.T) {
	t.Parallel()
	_, url := redistest.New(t)
	for path := range lines {
		words := append(strings.Fields(path), "", "--redis", url)
		if got := call(t.Context(), words...); got.code != 1 || !strings.Contains(got.err, `argument 1 is "", expected: troupe `+path) {
			t.Errorf("troupe %s '': %s", path, got)
		}
	}
}

// The same flags mean the same wherever they are.
func TestOneGrammar(t *testing.T) {
	shorts, kinds := map[string]string{}, map[string]string{}
	for path, cmd := range leaves(rootCommand()) {
		for _, name := range []string{"concurrency", "config", "queue", "timeout", "environment", "in", "at", "limit", "rate", "wait", "watch"} {
			f := cmd.Flags().Lookup(name)
			if f == nil {
				continue
			}
			if name == "queue" && f.Shorthand == "" { // one of a filter: it is not repeatable
				continue
			}
			if was, ok := shorts[name]; ok && was != f.Shorthand {
				t.Errorf("%s --%s is -%s, elsewhere -%s", path, name, f.Shorthand, was)
			}
			shorts[name] = f.Shorthand
			if name == "wait" && f.Value.Type() == "bool" || name == "queue" { // rescue waits for what it has seen
				continue
			}
			kind := f.Value.Type()
			if name == "config" {
				kind = ""
			}
			if was, ok := kinds[name]; ok && was != kind {
				t.Errorf("%s --%s is a %s, elsewhere a %s", path, name, kind, was)
			}
			kinds[name] = kind
		}
	}
}

// A list that is empty is no fault. What was named and is not there is one.
func TestAnEmptyListIsNoFault(t *testing.T) {
	t.Parallel()
	_, url := redistest.New(t)
	for line, note := range map[string]string{
		"jobs list dead": "no such jobs in dead", "jobs list queue:x": "no such jobs in queue:x", "jobs list running": "no such jobs in running",
		"jobs list retry --class A": "no such jobs in retry", "jobs export scheduled --args show": "no such jobs in scheduled",
		"ps": "no process runs", "ps --trouble": "no process is in trouble", "tree": "no process runs", "events": "no such events", "audit": "nobody did that", "queues": "nothing was ever pushed",
	} {
		for _, more := range [][]string{nil, {"--json"}} {
			got := call(t.Context(), slices.Concat(strings.Fields(line), []string{"--redis", url}, more)...)
			if got.code != 0 || got.out != "" || !strings.Contains(got.err, note) {
				t.Errorf("troupe %s %s: %s", line, more, got)
			}
		}
	}
	for _, line := range []string{"jobs show x", "jobs show dead x", "explain x", "queues show x", "queues clear x", "jobs retry dead x", "jobs retry dead --all", "tree x"} {
		if got := call(t.Context(), append(strings.Fields(line), "--redis", url)...); got.code != 2 {
			t.Errorf("troupe %s: %s", line, got)
		}
	}
}

// A job is shown wherever it is, or in the place that is named: the same jid may be in two.
func TestShowInAPlace(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	fill(t, rdb)
	harness.OK(t, rdb.Do(t.Context(), "ZADD", "dead", 1, `{"class":"Ended","jid":"r1","args":[]}`).Err())
	for line, want := range map[string]string{
		"jobs show r1": "retry, ", "jobs show retry r1": "retry, ", "jobs show dead r1": "Ended", "jobs show queue:default q2": "queue:default, ",
		"jobs show running walks": "running, ", "jobs show scheduled s1": "scheduled, ",
	} {
		if got := call(t.Context(), append(strings.Fields(line), "--redis", url)...); got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("troupe %s: %s", line, got)
		}
	}
	got := call(t.Context(), "jobs", "show", "dead", "s1", "--redis", url)
	if got.code != 2 || !strings.Contains(got.err, "no job s1 is in dead; troupe explain s1 looks everywhere") {
		t.Error(got)
	}
}

// With a place before its name a job is cancelled only if it is there.
func TestCancelInAPlace(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	fill(t, rdb)
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"jobs cancel scheduled r1", 2, "no job r1 is in scheduled; troupe explain r1 looks everywhere"},
		{"jobs cancel queue:low q2", 2, "no job q2 is in queue:low"},
		{"jobs cancel retry r1", 0, "cancelled r1: it was to be retried and is deleted"},
		{"jobs cancel queue:default q2", 0, "cancelled q2: it waited in the queue default and is deleted"},
		{"jobs cancel retry r1", 2, "no job r1 is in retry"},
	} {
		if got := call(t.Context(), append(strings.Fields(c.line), "--redis", url)...); got.code != c.code || !strings.Contains(got.out+got.err, c.want) {
			t.Errorf("troupe %s: %s, expected %d and %s", c.line, got, c.code, c.want)
		}
	}
}

// One alias means one thing, and is told.
func TestAliases(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	fill(t, rdb)
	if got := call(t.Context(), "queues", "resume", "low", "--redis", url); got.code != 0 || got.out != "low is not paused\n" {
		t.Error(got)
	}
	all := map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(leaves(rootCommand()))) {
		for _, alias := range leaves(rootCommand())[path].Aliases {
			if was, ok := all[alias]; ok || !strings.Contains(leaves(rootCommand())[path].Short, "also: "+alias) {
				t.Errorf("%s has the alias %s, and %s has it", path, alias, was)
			}
			all[alias] = path
		}
	}
}
