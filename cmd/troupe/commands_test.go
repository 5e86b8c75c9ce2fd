package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/internal/test/redistest"
)

// said is what one command line says.
type said struct {
	code     int
	out, err string
}

func (s said) String() string { return fmt.Sprintf("exit code %d\n%s%s", s.code, s.out, s.err) }

// call runs a command line in this process.
func call(ctx context.Context, args ...string) said {
	var out, errs bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetIn(strings.NewReader(""))
	code := execute(ctx, root, args)
	return said{code, out.String(), errs.String()}
}

// lines has one command line for each command that looks at a Redis, for the contents of fill. A
// new command is added here: the tests of all commands are then its, too.
var lines = map[string]string{
	"stats": "stats", "ps": "ps", "tree": "tree", "events": "events", "doctor": "doctor", "audit": "audit",
	"queues": "queues --over 0", "queues list": "queues list --over 0", "queues show": "queues show default",
	"queues pause": "queues pause default", "queues unpause": "queues unpause low", "queues clear": "queues clear default",
	"jobs list": "jobs list retry", "jobs show": "jobs show r1", "jobs cancel": "jobs cancel walks", "jobs export": "jobs export retry --args show",
	"jobs import": "jobs import EXPORT", "jobs retry": "jobs retry retry r1", "jobs kill": "jobs kill retry r1",
	"jobs delete": "jobs delete dead d1", "jobs reschedule": "jobs reschedule scheduled s1 --at 1h",
	"jobs release": "jobs release held h1",
	"jobs move":    "jobs move queue:default q1 --to slow",
	"periodic":     "periodic", "periodic list": "periodic list", "periodic show": "periodic show nightly", "periodic enable": "periodic enable weekly",
	"periodic disable": "periodic disable nightly", "periodic push": "periodic push nightly", "periodic delete": "periodic delete nightly --yes",
	"periodic add": "periodic add hourly Pay [1] two --cron @hourly",
	"locks":        "locks", "locks list": "locks list", "locks free": "locks free s1 --reason gone",
	"limits": "limits", "limits list": "limits list", "limits show": "limits show mail", "limits set": "limits set mail 3 --reason gone",
	"limits reset": "limits reset mail --reason gone", "limits release": "limits release mail --limit 1 --reason gone", "limits rest": "limits rest api 1m --reason gone",
	"batches": "batches", "batches list": "batches list", "batches show": "batches show b1", "batches close": "batches close b2 --reason gone",
	"batches cancel": "batches cancel b2 --reason gone", "batches count-out": "batches count-out b1 --wait 1s --reason gone",
	"quiet": "quiet vm:481:f3e0624fd5ca", "stop": "stop vm:481:f3e0624fd5ca", "dump": "dump vm:481:f3e0624fd5ca",
	"configure": "configure vm:9:0123456789ab --concurrency 3", "explain": "explain r1", "metrics": "metrics", "inflight": "inflight", "rescue": "rescue",
	"adopt go-workers": "adopt go-workers --namespace app --process p1",
}

// apart are the commands that are none of those, and why.
var apart = map[string]string{
	"run": "the daemon", "demo": "a daemon of its own", "push": "its --args are those of the job", "check": "it looks at a file",
	"version": "it looks at nothing", "await": "a client that waits, with the rights of one", "jobs": "it prints its help", "adopt": "it prints its help", "top": "a screen",
	"web": "a server", "web user": "it makes a line of a file", "web token": "it makes a line of a file", "health": "it asks a daemon, not Redis",
	"outbox": "it prints its help", "outbox status": "it asks a database", "outbox schema": "it asks a database", "outbox replay": "it asks a database",
}

// leaves are the commands that can be run, by their paths.
func leaves(cmd *cobra.Command) map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	for _, c := range cmd.Commands() {
		maps.Copy(all, leaves(c))
		if path := strings.TrimPrefix(c.CommandPath(), "troupe "); c.Runnable() && !strings.HasPrefix(path, "completion") && path != "help" {
			all[path] = c
		}
	}
	return all
}

// fill makes what the command lines look at: a process of Ruby that runs a job, one of troupe that
// answers nothing, one that has died, and jobs everywhere. The argument of a job has a secret.
func fill(t *testing.T, rdb *redis.Client) {
	t.Helper()
	now, midnight := time.Now().Unix(), time.Now().UTC().Truncate(24*time.Hour)
	job := func(jid, more string) string {
		return `{"retry":true,"queue":"default","class":"Pay","args":[{"password":"hunter2"},12345678901234567890],"jid":"` + jid + `","created_at":1795225014.2,"enqueued_at":1795225014.25` + more + `}`
	}
	const failed = `,"error_message":"502 Bad Gateway","error_class":"Net::HTTPFatalError","failed_at":1795225014.5,"retry_count":2,"retried_at":1795225018.5,"tags":["vip"]`
	const ruby, ours, dead = "vm:481:f3e0624fd5ca", "vm:9:0123456789ab", "gone:1:aa#default.1"
	for _, args := range [][]any{
		{"MSET", "stat:processed", 10, "stat:failed", 3},
		{"LPUSH", "troupe:audit", `{"at":"2026-11-26T12:00:00Z","user":"ann","address":"vm","action":"queues pause","path":"/queues/low/pause","outcome":"done"}`},
		{"SADD", "queues", "default", "low"}, {"SADD", "paused", "low"}, {"LPUSH", "queue:default", job("q1", ""), job("q2", "")},
		{"ZADD", "retry", 1795225036.25, job("r1", failed), 1795225037, job("r2", failed)},
		{"ZADD", "schedule", 1995000000, job("s1", "")}, {"ZADD", "dead", 1795225098.323981, job("d1", failed+`,"t_batch":"b1:1"`), 1795225099, "junk"},
		{"SADD", "processes", ruby, ours, "listed:1:only", "odd:1:info"}, {"HSET", "odd:1:info", "info", "no JSON", "beat", "never"},
		{"HSET", ruby, "info", `{"hostname":"vm","started_at":1795224910.7343729,"pid":481,"tag":"shop","concurrency":3,"queues":["default"],"labels":[],"identity":"` + ruby + `"}`,
			"busy", 1, "beat", now, "quiet", "false", "rss", 29476},
		{"HSET", ruby + ":workers", "gk1", `{"queue":"default","payload":` + fmt.Sprintf("%q", job("walks", "")) + `,"run_at":1795225012}`},
		{"HSET", "it-walks", "ex", 1, "c", 199, "rt", 0},
		{"SET", "troupe:result:ended", `{"outcome":"done","at":1795225014.5,"result":{"bytes":10,"token":"hunter2"}}`},
		{"HSET", ours, "info", `{"hostname":"vm","pid":9,"concurrency":2,"queues":["low"],"identity":"` + ours + `","version":"troupe"}`, "busy", 0, "beat", now, "quiet", "false"},
		{"SET", "troupe:pulse:" + ours, `{"at":` + fmt.Sprint(now) + `,"version":"0.1","phase":"running","capsules":[{"name":"default","idle":2}],"restarts":1}`},
		{"ZADD", "troupe:pulses", now, ours},
		{"SET", "troupe:tree:" + ours, `[{"path":"launcher","role":"launcher","state":"running","restarts":0,"depth":0,"for_ns":5},` +
			`{"path":"launcher/default","role":"manager","capsule":"default","state":"restarting","note":"in 3 s","restarts":1,"last_failure":"boom","depth":2,"for_ns":5,"job":{"jid":"j","class":"C","queue":"q","started":"2026-11-21T00:00:00Z"},` +
			`"unresponsive":[{"jid":"j","class":"C","queue":"q","started":"2026-11-21T00:00:00Z","since":"2026-11-21T00:00:00Z","cause":"timeout","stack":"goroutine 1","replaced":true}]}]`},
		{"RPUSH", "troupe:flight:" + ours, `{"at":"2026-11-21T01:36:54.5Z","kind":"job failed","jid":"r1","class":"Pay","queue":"default","capsule":"default","actor":"launcher/default/processor-0","text":"502"}`},
		{"ZADD", "troupe:flights", now, ours},
		{"HSET", "troupe:places", dead, `{"v":2,"queues":["default"]}`}, {"HSET", "troupe:inprogress:" + dead, "!", "1 7", "7.1", "default 1795224881000"},
		{"LPUSH", "troupe:claim:" + dead + ":7.1", job("p1", "")},
		{"HSET", "troupe:places", "lives:2:bb#big.3", `{"v":2,"queues":["low"]}`}, {"SET", "troupe:lease:lives:2:bb#big.3", 1, "PX", 600000},
		{"SET", "troupe:lock:0f1e2d3c4b5a69788796a5b4c3d2e1f0", "s1", "PX", 600000}, {"SET", "troupe:lock:00112233445566778899aabbccddeeff", "ended"},
		{"HSET", "troupe:limits", "mail", "1 pinned 2", "api", "1000 0 breaker 3 60"}, {"HSET", "troupe:rest:api", "ends", now + 3600}, {"ZADD", "troupe:slots:mail", now + 3600, "walks"}, {"ZADD", "troupe:held", now + 3600, "mail"},
		{"ZADD", "troupe:held:mail", now, fmt.Sprint(now) + `000000.1.2 ["queue:default","","h1","mail"]` + "\n" + job("h1", ""), now + 1, fmt.Sprint(now) + `000000.2.2 ["queue:default","","h2","mail"]` + "\n" + job("h2", "")},
		{"HSET", "troupe:batch:b1", "total", 4, "pending", 3, "unrun", 2, "closed", 1, "name", "import", "made", now - 60, "last", now - 30, "due", 0, "death", now - 40,
			"to:success", "default", "on:success", `{"class":"Pay","args":[],"queue":"default","jid":"c1"`, "to:death", "low", "on:death", `{"class":"Pay","args":[],"queue":"low","jid":"c2"`},
		{"SETBIT", "troupe:batch:b1:done", 0, 1}, {"SADD", "troupe:batch:b1:children", "b2"},
		{"HSET", "troupe:batch:b2", "total", 1, "pending", 1, "unrun", 1, "made", now - 50, "last", now - 50, "due", 0, "parent", "b1:2"},
		{"ZADD", "troupe:batches", now + 3600, "b1", now + 3600, "b2"}, {"PEXPIRE", "troupe:batch:b1", 3600000}, {"PEXPIRE", "troupe:batch:b2", 3600000},
		{"LPUSH", "app:queue:mail:p1:inprogress", `{"class":"Mail","args":[],"jid":"m1"}`},
		{"SADD", "cron_jobs:default", "cron_job:default:nightly", "cron_job:default:weekly"},
		{"HSET", "cron_job:default:nightly", "name", "nightly", "namespace", "default", "klass", "Pay", "cron", "0 0 * * * UTC", "description", "of the day", "args", `[{"password":"hunter2"}]`, "status", "enabled",
			"message", `{"class":"Pay","args":[{"password":"hunter2"}],"queue":"default","retry":true}`, "troupe", `{"tag":"shop"}`, "last_enqueue_time", midnight.Format("2006-01-02 15:04:05 -0700"),
			"troupe_last", `{"at":"` + midnight.Format(time.RFC3339) + `","what":"pushed","jid":"t1","late":4000000}`},
		{"ZADD", "cron_job:default:nightly:enqueued", midnight.Unix(), midnight.Format(time.RFC3339)},
		{"LPUSH", "cron_job:default:nightly:jid_history", `{"jid":"t1","enqueued":"` + midnight.Format("2006-01-02 15:04:05 -0700") + `"}`},
		{"HSET", "cron_job:default:weekly", "name", "weekly", "klass", "Pay", "cron", "0 0 * * 1 UTC", "args", "[]", "status", "disabled", "message", `{"class":"Pay","args":[],"queue":"default"}`},
	} {
		if err := rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(args, err)
		}
	}
}

// export is a file with two jobs that are not there.
func export(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "export.jsonl")
	text := `{"set":"dead","score":"1795225098.323981","job":"{\"jid\":\"i1\"}"}` + "\n" + `{"queue":"default","job":"{\"jid\":\"i2\"}"}` + "\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// words are those of a line, with a file in the place of EXPORT.
func wordsOf(line, file string) []string {
	return strings.Fields(strings.ReplaceAll(line, "EXPORT", file))
}

func TestEveryCommandIsTested(t *testing.T) {
	for path, cmd := range leaves(rootCommand()) {
		line, ok := lines[path]
		switch why := apart[path]; {
		case ok == (why != ""):
			t.Errorf("%s: its line is %q, and it stands apart as %q, expected one of the two", path, line, why)
		case ok && !strings.HasPrefix(line, path):
			t.Errorf("%s has the line %q", path, line)
		case ok:
			for _, flag := range []string{"json", "args", "no-color", "read-only", "config", "redis"} {
				if cmd.Flags().Lookup(flag) == nil {
					t.Errorf("%s has no flag --%s", path, flag)
				}
			}
		}
	}
}

// contents is every key with what it has.
func contents(t *testing.T, rdb *redis.Client) map[string]string {
	t.Helper()
	ctx, all := t.Context(), map[string]string{}
	for _, key := range rdb.Keys(ctx, "*").Val() {
		switch rdb.Type(ctx, key).Val() {
		case "string":
			all[key] = rdb.Get(ctx, key).Val()
		case "list":
			all[key] = strings.Join(rdb.LRange(ctx, key, 0, -1).Val(), "\n")
		case "set":
			all[key] = fmt.Sprint(slices.Sorted(slices.Values(rdb.SMembers(ctx, key).Val())))
		case "hash":
			all[key] = fmt.Sprint(rdb.HGetAll(ctx, key).Val())
		case "zset":
			all[key] = fmt.Sprint(rdb.ZRangeWithScores(ctx, key, 0, -1).Val())
		}
	}
	return all
}

// byTheWay takes away what reading commands do by the way: they have processes beat.
func byTheWay(all map[string]string) map[string]string {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(key, value string) bool {
		return strings.HasPrefix(key, "troupe:requests:") && strings.Contains(value, `"do":"look"`)
	})
	return all
}

// What a command changes without --read-only it refuses with it, and nothing at all changes.
func TestReadOnlyChangesNothing(t *testing.T) {
	t.Parallel()
	changing := 0
	for _, path := range slices.Sorted(maps.Keys(lines)) {
		rdb, url := redistest.New(t)
		fill(t, rdb)
		words := append(wordsOf(lines[path], export(t)), "--redis", url)
		before := contents(t, rdb)
		got := call(t.Context(), append(words, "--read-only")...)
		if !maps.Equal(contents(t, rdb), before) {
			t.Errorf("%s --read-only has changed something: %s", lines[path], got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // for what waits for processes that do not answer
		call(ctx, words...)
		cancel()
		changes := !maps.Equal(byTheWay(before), byTheWay(contents(t, rdb)))
		if changes != (got.code == 4) || changes && !strings.Contains(got.err, "refused by --read-only") {
			t.Errorf("%s changes something: %v, and with --read-only: %s", lines[path], changes, got)
		}
		if changes {
			changing++
		}
	}
	if changing < 15 {
		t.Errorf("%d commands change something", changing)
	}
}
