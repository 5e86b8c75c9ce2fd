package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/rights"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// reading are the lines of the commands that change nothing; what those that change something show
// before they do is there by --dry-run.
func reading(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"top": "top"}
	for _, page := range []string{":processes", ":tree", ":queues", ":queue default", ":running", ":retry", ":scheduled", ":dead", ":events", ":explain r1"} {
		all["top "+page] = "top " + page
	}
	for _, of := range []string{"scheduled", "dead", "running", "queue:default"} {
		all["jobs list "+of] = "jobs list " + of
	}
	for path, cmd := range leaves(rootCommand()) {
		line, ok := lines[path]
		switch {
		case !ok: // it stands apart
		case cmd.Flags().Lookup("dry-run") != nil:
			all[path] = line + " --dry-run"
		case !changing[path]:
			all[path] = line
		}
	}
	return all
}

// changing are the commands without --dry-run that change something.
var changing = map[string]bool{
	"queues pause": true, "queues unpause": true, "queues clear": true, "jobs cancel": true, "quiet": true, "stop": true, "dump": true, "configure": true,
	"periodic enable": true, "periodic disable": true, "periodic push": true, "periodic delete": true, "periodic add": true,
	"locks free": true, "limits set": true, "limits reset": true, "limits release": true, "limits rest": true, "batches close": true, "batches cancel": true, "batches count-out": true,
}

// Every command that only reads does so in a Redis that cannot be written, and says the same as in one
// that can.
func TestReadingNeedsNoWriting(t *testing.T) {
	t.Parallel()
	all := reading(t)
	for _, state := range redistest.Unwritables(t, func(rdb *redis.Client) { fill(t, rdb) }) {
		t.Run(state.Name, func(t *testing.T) {
			for _, path := range slices.Sorted(maps.Keys(all)) {
				words := append(wordsOf(all[path], export(t)), "--redis", state.URL)
				got := call(t.Context(), words...)
				want := 0
				if path == "doctor" {
					want = 3
				}
				if got.code != want || strings.Contains(got.err, "EXECABORT") || strings.Contains(got.err, "refuses this") || got.out == "" {
					t.Errorf("%q: %s", words, got)
				}
			}
		})
	}
}

// What changes something is refused there: it is not told that Redis is away, and a deletion works as
// far as Redis lets it.
func TestARefusalIsNoAbsence(t *testing.T) {
	t.Parallel()
	deletes := []string{"limits release", "queues clear", "queues unpause", "jobs delete", "periodic delete", "locks free"} // which take no more memory
	for _, state := range redistest.Unwritables(t, func(rdb *redis.Client) { fill(t, rdb) }) {
		t.Run(state.Name, func(t *testing.T) {
			paths := slices.DeleteFunc(slices.Sorted(maps.Keys(leaves(rootCommand()))), func(path string) bool { return slices.Contains(deletes, path) })
			for _, path := range append(paths, deletes...) { // else there is nothing left
				line, ok := lines[path]
				if _, reads := reading(t)[path]; !ok || reads && !slices.Contains([]string{"jobs retry", "jobs kill", "jobs delete", "jobs reschedule", "jobs move", "jobs release", "jobs import"}, path) {
					continue
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				got := call(ctx, append(wordsOf(line, export(t)), "--redis", state.URL, "--yes")...)
				if !hasFlag(path, "yes") {
					got = call(ctx, append(wordsOf(line, export(t)), "--redis", state.URL)...)
				}
				cancel()
				if state.Code == "OOM" && slices.Contains(deletes, path) {
					if got.code != 0 {
						t.Errorf("%s, which only deletes: %s", line, got)
					}
					continue
				}
				names := strings.Contains(got.err, state.Code) || state.Code == "NOPERM" && strings.Contains(got.err, "missing are commands")
				if got.code != 4 || !names || strings.Contains(got.err, "away") || strings.Contains(got.err, "not answer") {
					t.Errorf("%s: %s, expected a refusal with %s", line, got, state.Code)
				}
			}
			if n := state.Admin.LLen(t.Context(), "queue:default").Val(); (n == 0) != (state.Code == "OOM") {
				t.Errorf("%d jobs wait in the queue", n)
			}
		})
	}
}

// refused are the calls that a Redis has refused for want of a right since the last time.
func refused(t *testing.T, admin *redis.Client) (all []string) {
	t.Helper()
	entries := harness.Must(admin.Do(t.Context(), "ACL", "LOG").Slice())(t)
	for _, e := range entries {
		e := e.(map[any]any)
		all = append(all, fmt.Sprint(e["username"], " ", e["reason"], " ", e["object"]))
	}
	harness.OK(t, admin.Do(t.Context(), "ACL", "LOG", "RESET").Err())
	return all
}

func hasFlag(path, name string) bool {
	cmd := leaves(rootCommand())[path]
	return cmd != nil && cmd.Flags().Lookup(name) != nil
}

// The documented rules are enough for every command, and who has too few rights reads all that are missing.
func TestTheRulesAreEnough(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = admin.Close() })
	for name, rule := range map[string][]string{"looks": rights.Tool{}.Rule(), "acts": rights.Tool{Changes: true}.Rule(), "few": {"+get", "+sscan", "~*"}} {
		args := []any{"ACL", "SETUSER", name, "on", ">pw"}
		for _, r := range rule {
			args = append(args, r)
		}
		harness.OK(t, admin.Do(t.Context(), args...).Err())
	}
	reads := reading(t)
	for path, line := range lines {
		if path == "rescue" || path == "adopt go-workers" { // they have the rule of the daemon
			continue
		}
		fill(t, admin)
		user := "acts"
		if _, ok := reads[path]; ok && !hasFlag(path, "dry-run") {
			user = "looks"
		}
		words := append(wordsOf(line, export(t)), "--redis", strings.Replace(server.URL(0), "redis://", "redis://"+user+":pw@", 1))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // for what waits for processes that do not answer
		got := call(ctx, words...)
		cancel()
		if got.code == 1 || strings.Contains(got.err, "NOPERM") || strings.Contains(got.err, "missing are") {
			t.Errorf("%q: %s", words, got)
		}
		for _, e := range refused(t, admin) {
			asks := strings.HasSuffix(e, " acl|whoami") || user == "looks" && slices.Contains([]string{"looks command rpush", "looks command pexpire"}, e) // processes, for what is so now
			if path != "doctor" && !asks {                                                                                                                 // doctor asks what the user may
				t.Errorf("%q: redis has refused %s", words, e)
			}
		}
	}
	url := strings.Replace(server.URL(0), "redis://", "redis://few:pw@", 1)
	if got := call(t.Context(), "ps", "--redis", url); got.code != 4 || !strings.Contains(got.err, "missing are commands") || !strings.Contains(got.err, "ACL SETUSER few +") || !strings.Contains(got.err, "HMGET") {
		t.Errorf("ps: %s", got)
	}
	if got := call(t.Context(), "web", "--listen", "127.0.0.1:0", "--redis", url); got.code != 4 || !strings.Contains(got.err, "the rights that the dashboard needs") {
		t.Errorf("web: %s", got)
	}
}
