package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// flagged are the values with which each flag is started once, by its name, or by its command and
// its name where that takes another one. A flag that needs more, or that the line of its command
// cannot have, has a whole line. REDIS, FILE, USERS, OPS, SHOP and EXPORT are filled in.
var flagged = map[string]string{
	"args": "hide", "at": "2099-01-02T15:04:05Z", "capsule": "default", "class": "Pay", "concurrency": "3",
	"config": "FILE", "count": "2", "environment": "test", "error": "502", "every": "3s", "expires": "12h", "for": "1s", "in": "90", "kind": "crashed",
	"text": "502", "limit": "3", "listen": "127.0.0.1:0", "log": "json", "namespace": "app", "older": "2h", "ops": "127.0.0.1:0", "over": "0", "process": "vm:9:0123456789ab",
	"queue": "default", "rate": "100", "redis": "REDIS", "retry": "3", "role": "viewer", "since": "1h", "tag": "vip", "timeout": "5", "ttl": "60", "until": "1h",
	"to": "slow", "jobs move --to": "jobs move queue:default q1 --to slow", "jobs move --all": "jobs move queue:default --all --to slow",
	"wait": "1s", "watch": "2s", "names": "sidekiq", "cron": "@daily", "reason": "gone", "description": "nightly", "missed": "last", "overlap": "skip",

	"failed-since": "1h", "failed-until": "1h", "as": "ann", "outcome": "done", "user": "ann", "when-since": "1h", "when-until": "1h",
	"base-path": "/jobs", "users": "USERS", "trust-proxy": "10.0.0.0/8", "origin": "https://jobs.example", "mask": "patient", "mask-args": "Billing::Charge:1,3",
	"user-header": "web --listen 127.0.0.1:0 --trust-proxy 10.0.0.0/8 --user-header X-User",
	"role-header": "web --listen 127.0.0.1:0 --trust-proxy 10.0.0.0/8 --user-header X-User --role-header X-Role",

	"configure --all": "configure --all --concurrency 3 --read-only", "configure --capsule": "configure vm:9:0123456789ab --capsule default --concurrency 3 --read-only",
	"configure --host": "configure --host vm --concurrency 3 --read-only", "configure --tag": "configure --tag vip --concurrency 3 --read-only", "configure --version": "configure --version 1.2 --concurrency 3 --read-only",
	"dump --host": "dump --host vm", "dump --tag": "dump --tag vip", "dump --version": "dump --version 1.2",
	"quiet --host": "quiet --host vm", "quiet --tag": "quiet --tag vip", "quiet --version": "quiet --version 1.2",
	"stop --host": "stop --host vm", "stop --tag": "stop --tag vip", "stop --version": "stop --version 1.2",
	"locks free --reason": "locks free s1 --reason gone", "limits set --reason": "limits set mail 3 --reason gone",
	"limits reset --reason": "limits reset mail --reason gone", "limits release --reason": "limits release mail --limit 1 --reason gone", "limits rest --reason": "limits rest api 1m --reason gone",
	"batches close --reason": "batches close b2 --reason gone", "batches cancel --reason": "batches cancel b2 --reason gone", "batches count-out --reason": "batches count-out b1 --wait 1s --reason gone",
	"dump --all": "dump --all", "quiet --all": "quiet --all", "stop --all": "stop --all",
	"jobs retry --all": "jobs retry retry --all", "jobs delete --all": "jobs delete retry --all", "jobs kill --all": "jobs kill retry --all", "jobs release --all": "jobs release held --all", "jobs reschedule --all": "jobs reschedule retry --all --at 1h",
	"jobs reschedule --at": "jobs reschedule scheduled s1 --at 2h", "jobs reschedule --in": "jobs reschedule scheduled s1 --in 90",
	"outbox schema --dialect": "outbox schema --dialect postgres", "outbox schema --config": "outbox schema --dialect postgres -C FILE", "outbox schema --environment": "outbox schema --dialect postgres -e test",
	"outbox status --config": "outbox status --config=SHOP", "outbox replay --config": "outbox replay --since 2h --config=SHOP", "outbox schema --apply": "outbox schema --apply -C SHOP",
	"demo --timeout": "5s", "health --ops": "OPS", "push --args": "[1]", "push --in": "90",
	"push --encrypt": "push NoOp --encrypt -C FILE", "run --web": "127.0.0.1:0", "top --json": "", // top says that it has none
}

// filters are the flags of jobs that choose; they stand instead of jids.
var filters = []string{"text", "class", "queue", "error", "tag", "since", "until", "failed-since", "failed-until", "when-since", "when-until"}

// starts are the lines of commands that have none in lines, or not one for this.
var starts = map[string]string{
	"run": "run -C FILE -t 5", "jobs cancel": "jobs cancel walks --read-only", // else these two wait for an answer
	"configure": "configure vm:9:0123456789ab --concurrency 3 --read-only",
	"demo":      "demo --for 1s", "await": "await ended", "push": "push NoOp", "check": "check -C FILE", "version": "version", "top": "top --every 1s",
	"web": "web --listen 127.0.0.1:0", "web user": "web user ann --role viewer", "web token": "web token ci --role viewer", "health": "health --ops OPS",
	"outbox": "outbox", "outbox schema": "outbox schema --dialect postgres", "outbox status": "outbox status -C SHOP", "outbox replay": "outbox replay -C SHOP --since 2h",
}

// begun are what the commands that do not end by themselves say when they have begun.
var begun = map[string]string{"run": "troupe is running", "web": "http://", "demo": "\n", "rescue --wait": "\n", "metrics --listen": "http://", "events --follow": "job failed"}

// ends cancels a command line when it has said something.
type ends struct {
	strings.Builder
	mark   string
	cancel func()
}

func (e *ends) Write(p []byte) (int, error) { return e.WriteString(string(p)) }

// WriteString is what io.WriteString calls.
func (e *ends) WriteString(text string) (int, error) {
	n, err := e.Builder.WriteString(text)
	if e.mark != "" && strings.Contains(e.String(), e.mark) {
		e.cancel()
	}
	return n, err
}

// Every flag that is documented can be given: the command starts with it.
func TestEveryFlagIsStarted(t *testing.T) {
	dir := t.TempDir()
	file, usersFile := filepath.Join(dir, "troupe.yml"), filepath.Join(dir, "users")
	text := "handlers:\n  NoOp: {builtin: noop}\n"
	harness.OK(t, os.WriteFile(file, []byte(text), 0o600))
	harness.OK(t, os.WriteFile(usersFile, []byte(call(t.Context(), "web", "token", "ci", "--role", "viewer").out), 0o600))
	shop := filepath.Join(dir, "shop.yml")
	harness.OK(t, os.WriteFile(shop, []byte("outbox: {main: {dsn: "+filepath.Join(dir, "shop.db")+", dialect: sqlite}}\n"), 0o600))
	if made := call(t.Context(), "outbox", "schema", "--apply", "-C", shop); made.code != 0 {
		t.Fatal(made)
	}
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	defer daemon.Close()
	rdb, url := redistest.New(t)
	t.Setenv("REDIS_URL", url)
	fillIn := strings.NewReplacer("REDIS", url, "FILE", file, "USERS", usersFile, "OPS", strings.TrimPrefix(daemon.URL, "http://"), "EXPORT", export(t), "SHOP", shop)
	started := 0
	for path, cmd := range leaves(rootCommand()) {
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.Name == "help" {
				return
			}
			line := lineOf(t, path, flag)
			if line == "" {
				return
			}
			harness.OK(t, rdb.FlushDB(t.Context()).Err())
			fill(t, rdb)
			started++
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			said := ends{mark: begun[path], cancel: cancel}
			if mark, ok := begun[path+" --"+flag.Name]; ok {
				said.mark = mark
			}
			if flag.Name == "watch" {
				said.mark = "\n"
			}
			if flag.Name == "version" {
				said.mark = "" // it ends by itself
			}
			root := rootCommand()
			root.SetOut(&said)
			root.SetErr(&said)
			root.SetIn(strings.NewReader("correct horse battery\n"))
			if code := execute(ctx, root, strings.Fields(fillIn.Replace(line))); code == 1 || said.mark != "" && !strings.Contains(said.String(), said.mark) {
				t.Errorf("troupe %s does not start: exit code %d\n%s", line, code, &said)
			}
		})
	}
	if started < 300 {
		t.Errorf("%d flags were started", started)
	}
	for name := range flagged {
		if path, flag, ok := strings.Cut(name, " --"); ok {
			if cmd := leaves(rootCommand())[path]; cmd == nil || cmd.Flags().Lookup(flag) == nil {
				t.Errorf("there is no flag %s", name)
			}
		}
	}
}

// lineOf is the line with which a flag is started; "" for none.
func lineOf(t *testing.T, path string, flag *pflag.Flag) string {
	t.Helper()
	line, ok := starts[path]
	if !ok {
		line = lines[path]
	}
	name := strings.TrimPrefix(flag.Name, "web-")
	value, ok := flagged[path+" --"+flag.Name]
	switch {
	case ok && value == "":
		return ""
	case !ok && flag.Value.Type() == "bool":
		return line + " --" + flag.Name
	case !ok:
		value, ok = flagged[name]
	}
	switch {
	case !ok:
		t.Errorf("%s --%s: it has no value, expected one in the table flagged", path, flag.Name)
		return ""
	case strings.HasPrefix(value, "web ") && path == "run":
		return strings.Replace(strings.ReplaceAll(value, " --", " --web-"), "web --web-listen", line+" --web", 1)
	case strings.HasPrefix(value, path+" "):
		return value
	case path == "run" && name != flag.Name:
		line += " --web 127.0.0.1:0"
	case strings.HasPrefix(path, "jobs ") && slices.Contains(filters, flag.Name):
		words := strings.Fields(line)
		line = strings.Join(words[:3], " ")
		if i := slices.Index(words, "--at"); i > 0 {
			line += " --at 1h"
		}
		if slices.Contains(words, "--to") {
			line += " --to slow"
		}
	}
	return line + " --" + flag.Name + "=" + value
}

// A flag that an empty variable of a shell was given to is a fault, whatever its type is.
func TestNoFlagIsEmpty(t *testing.T) {
	for _, line := range []string{"web --users=", "web --mask=", "web --mask a,,b", "run --web-users=", "run --web-mask=", "jobs list retry --class=", "stats --redis="} {
		if got := call(t.Context(), strings.Fields(line)...); got.code != 1 || !strings.Contains(got.err, `is "", expected a value`) {
			t.Errorf("%s: %s", line, got)
		}
	}
}
