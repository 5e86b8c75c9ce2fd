package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Every shell gets a script that asks the program itself.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := call(t.Context(), "completion", shell); got.code != 0 || !strings.Contains(got.out, "__complete") || got.err != "" {
			t.Errorf("%s: exit code %d, %d bytes, %s", shell, got.code, len(got.out), got.err)
		}
	}
}

// completed are the words that a shell is told for the last argument, and the directive.
func completed(ctx context.Context, words ...string) (names []string, directive string) {
	got := call(ctx, append([]string{"__complete"}, words...)...)
	all := strings.Split(strings.TrimSpace(got.out), "\n")
	return all[:len(all)-1], all[len(all)-1]
}

const noFiles = ":4"

// What there is completes: processes, sets, queues, the words of flags. No completion changes Redis.
func TestCompletions(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	fill(t, rdb)
	harness.OK(t, rdb.SAdd(t.Context(), "queues", "a b", "x\ny", "t\tdescribed", "\x1b[31m").Err())
	before := contents(t, rdb)
	processes := []string{"odd:1:info", "vm:481:f3e0624fd5ca", "vm:9:0123456789ab"}
	queues := []string{"a b", "default", "low"} // names that would break the lines are left out
	of := func(more ...string) (all []string) {
		for _, q := range queues {
			all = append(all, "queue:"+q)
		}
		return append(more, all...)
	}
	for line, want := range map[string][]string{
		"tree": processes, "quiet": processes, "stop": processes, "dump": processes, "configure": processes,
		"quiet vm:9:0123456789ab": {"odd:1:info", "vm:481:f3e0624fd5ca"}, "tree vm:9:0123456789ab": nil,
		"queues show": queues, "queues pause": queues, "queues unpause": queues, "queues clear": queues, "queues pause low": nil,
		"periodic show": {"nightly", "weekly"}, "periodic delete": {"nightly", "weekly"}, "periodic enable nightly": {"weekly"}, "periodic push nightly": nil,
		"locks free":   {"--reason\twhy, for the audit", "troupe:lock:00112233445566778899aabbccddeeff", "troupe:lock:0f1e2d3c4b5a69788796a5b4c3d2e1f0"},
		"batches show": {"b1", "b2"}, "batches cancel": {"--reason\twhy, for the audit", "b1", "b2"},
		"limits show": {"api", "mail"}, "limits set": {"--reason\twhy, for the audit", "api", "mail"},
		"jobs list": of("retry", "scheduled", "dead", "held", "running"), "jobs export": of("retry", "scheduled", "dead"),
		"jobs retry": {"retry", "scheduled", "dead"}, "jobs kill": of("retry", "scheduled", "held"), "jobs move": of(),
		"jobs delete": of("retry", "scheduled", "dead", "held"), "jobs reschedule": {"retry", "scheduled"}, "jobs retry dead": nil,
		"stats --args": {"mask", "hide", "show"}, "jobs move --to": queues,
	} {
		words := append([]string{}, strings.Fields(line)...)
		if flag := words[len(words)-1]; strings.HasPrefix(flag, "--") {
			words = append(words[:len(words)-1], "--redis", url, flag)
		} else {
			words = append(words, "--redis", url)
		}
		got, directive := completed(t.Context(), append(words, "")...)
		got = slices.DeleteFunc(got, func(word string) bool { return strings.HasPrefix(word, "--at") || strings.HasPrefix(word, "--to") }) // cobra's own: a flag that is needed
		slices.Sort(got)
		if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) || directive != noFiles {
			t.Errorf("%s: %q %s, expected %q", line, got, directive, want)
		}
	}
	for path := range lines {
		completed(t.Context(), append(strings.Fields(path), "--redis", url, "")...)
	}
	if after := contents(t, rdb); !maps.Equal(after, before) {
		t.Errorf("completions have changed something: %v, was %v", after, before)
	}
	if got, _ := completed(t.Context(), "quiet", "--redis", "redis://127.0.0.1:1/0", ""); len(got) > 0 {
		t.Errorf("without a Redis: %q", got)
	}
	if got, directive := completed(t.Context(), "jobs", "import", ""); len(got) > 0 || directive != ":0" {
		t.Errorf("files: %q %s", got, directive)
	}
}

// A user who may only read can complete and look.
func TestAUserWhoMayOnlyRead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer rdb.Close()
	fill(t, rdb)
	harness.OK(t, rdb.Do(t.Context(), "ACL", "SETUSER", "looks", "on", ">x", "~*", "&*", "+@read", "+@scripting", "+ping", "+select", "+multi", "+exec", "+info", "+config|get", "+time", "+client", "+hello").Err())
	url := "redis://looks:x@" + server.Addr + "/0"
	if got, _ := completed(t.Context(), "tree", "--redis", url, ""); !slices.Contains(got, "vm:9:0123456789ab") {
		t.Errorf("completions %q", got)
	}
	file := export(t)
	for _, path := range slices.Sorted(maps.Keys(lines)) {
		got := call(t.Context(), append(wordsOf(lines[path], file), "--redis", url, "--read-only")...)
		if strings.Contains(got.out+got.err, "NOPERM") && path != "doctor" {
			t.Errorf("%s: %s", path, got)
		}
	}
}
