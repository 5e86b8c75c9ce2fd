package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// execConfig has handlers for people who write no Go. %[1]s is a folder.
const execConfig = `
log: json
lease: 2
handlers:
  Save:  {exec: [/bin/sh, -c, 'cat > %[1]s/$TROUPE_JID; echo "$TROUPE_CLASS $TROUPE_QUEUE $TROUPE_ATTEMPT" > %[1]s/env; echo saved']}
  Dies:  {exec: [/bin/sh, -c, 'echo no use >&2; exit 65']}
  Fails: {exec: [/bin/sh, -c, 'echo line one >&2; echo "é the reason" >&2; exit 1']}
  Shot:  {exec: [/bin/sh, -c, 'kill -9 $$']}
  Slow:  {exec: [/bin/sh, -c, 'echo begun; sleep 60'], timeout: 0.5}
  Child: {exec: [/bin/sh, -c, 'sleep 1000 & echo $$ $! > %[1]s/pids; mv %[1]s/pids %[1]s/running; wait']}
  Noop:  {builtin: noop}
  Fail:  {builtin: fail}
  Panic: {builtin: panic}
  Echo:  {builtin: echo}
  Sleep: {builtin: sleep}
`

// only waits for the one member of set and returns it.
func only(t testing.TB, rdb *redis.Client, set string) *troupe.Payload {
	t.Helper()
	testkit.Await(t, "a job in "+set, func() bool { return rdb.ZCard(t.Context(), set).Val() == 1 })
	return parsed(t, rdb.ZRange(t.Context(), set, 0, 0).Val()[0])
}

func TestExecHandlers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		class, args string
		set         string // where the job ends up
		errorClass  string
		message     string
	}{
		{"Save", `["é",123456789012345678901234567890,1.10]`, "", "", ""},
		{"Dies", "[]", "dead", "exit status 65", "no use"},
		{"Fails", "[]", "retry", "exit status 1", "line one\né the reason"},
		{"Shot", "[]", "retry", "signal: killed", "/bin/sh: signal: killed"},
		{"Slow", "[]", "retry", "signal: terminated", "troupe: job timeout: /bin/sh: signal: terminated"},
		{"Noop", "[1]", "", "", ""},
		{"Fail", `["on purpose"]`, "retry", "error", "on purpose"},
		{"Panic", `["on purpose"]`, "retry", "", "on purpose"},
		{"Echo", `["x",1.50]`, "", "", ""},
		{"Sleep", `[0.01]`, "", "", ""},
		{"Nobody", `[]`, "retry", "", "Nobody"},
	} {
		t.Run(c.class, func(t *testing.T) {
			t.Parallel()
			rdb, url := redistest.New(t)
			jid, raw := push(t, rdb, c.class, c.args, client.Queue("special"))
			p := daemon(t, url, fmt.Sprintf(execConfig, dir), "-q", "special")
			if c.set != "" {
				got := only(t, rdb, c.set)
				class, _ := got.String("error_class")
				message, _ := got.String("error_message")
				if got.JID() != jid || c.errorClass != "" && class != c.errorClass || !strings.Contains(message, c.message) {
					t.Errorf("error_class %q, error_message %q, want %q, %q", class, message, c.errorClass, c.message)
				}
				p.Stop(soon)
				return
			}
			p.AwaitLog("job done")
			p.Stop(soon)
			clean(t, rdb)
			switch c.class {
			case "Save":
				if got, err := os.ReadFile(filepath.Join(dir, jid)); err != nil || string(got) != raw+"\n" {
					t.Errorf("stdin was %q (%v), want %q", got, err, raw+"\n")
				}
				if got, _ := os.ReadFile(filepath.Join(dir, "env")); string(got) != "Save special 1\n" {
					t.Errorf("environment %q", got)
				}
				out := p.Logged("job output")
				if len(out) != 1 || harness.Str(out[0], "line") != "saved" || harness.Str(out[0], "jid") != jid {
					t.Errorf("log of its output: %v", out)
				}
			case "Echo":
				harness.Equal(t, "printed", p.Stdout(), "[\"x\",1.5]\n")
			}
			for _, l := range p.Logged("job done") {
				if text := mustJSON(l); strings.Contains(text, "123456789012345678901234567890") {
					t.Errorf("arguments in the log: %s", text)
				}
			}
		})
	}
}

// When the daemon is killed its programs die with it, or the re-run of a job
// would overlap the first run.
func TestExecDiesWithTheDaemon(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: only Linux can do this")
	}
	rdb, url := redistest.New(t)
	dir := t.TempDir()
	p := daemon(t, url, fmt.Sprintf(execConfig, dir))
	push(t, rdb, "Child", "[]")
	running := filepath.Join(dir, "running")
	testkit.Await(t, "the program runs", func() bool { _, err := os.Stat(running); return err == nil })
	text := harness.Must(os.ReadFile(running))(t)
	p.Kill()
	began := time.Now()
	for field := range strings.FieldsSeq(string(text)) {
		pid := harness.Must(strconv.Atoi(field))(t)
		testkit.Await(t, "process "+field+" is gone", func() bool { return !alive(pid) })
	}
	t.Logf("program and its child were gone %s after kill -9", time.Since(began).Round(time.Millisecond))
	harness.OK(t, os.Remove(running))
	daemon(t, url, fmt.Sprintf(execConfig, dir))
	testkit.Await(t, "the job runs again", func() bool { _, err := os.Stat(running); return err == nil })
	t.Logf("it ran again %s after kill -9", time.Since(began).Round(time.Millisecond))
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// A program that is killed, runs out of memory or never ends is a failure of its
// own job: the daemon and the jobs beside it do not notice.
func TestExecFailuresTouchNothingElse(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	p := daemon(t, url, `
concurrency: 5
log: json
lease: 2s
handlers:
  Shot: {exec: [/bin/sh, -c, 'kill -9 $$']}
  Hog:  {exec: [/bin/sh, -c, 'ulimit -v 60000; exec tail /dev/zero']}
  Loop: {exec: [/bin/sh, -c, 'while :; do :; done'], timeout: 1s}
  Nap:  {exec: [/bin/sh, -c, 'sleep 4']}
  Noop: {builtin: noop}
`)
	nap, _ := push(t, rdb, "Nap", "[]")
	want := map[string]string{"Shot": "signal: killed", "Hog": "", "Loop": "signal: terminated"}
	for class := range want {
		push(t, rdb, class, "[]")
	}
	testkit.Await(t, "three jobs are to be retried", func() bool { return rdb.ZCard(t.Context(), "retry").Val() == 3 })
	for _, raw := range rdb.ZRange(t.Context(), "retry", 0, -1).Val() {
		job := parsed(t, raw)
		if class, _ := job.String("error_class"); want[job.Class()] != "" && class != want[job.Class()] || class == "" {
			t.Errorf("%s failed with error_class %q, want %q", job.Class(), class, want[job.Class()])
		}
	}
	noop, _ := push(t, rdb, "Noop", "[]")
	testkit.Await(t, "the other jobs are done", func() bool { return len(p.Logged("job done")) == 2 })
	for _, l := range p.Logged("job done") {
		if jid := harness.Str(l, "jid"); jid != nap && jid != noop {
			t.Errorf("done: %v", l)
		}
	}
	if n := rdb.Exists(t.Context(), "troupe:recovered", "dead").Val(); n != 0 || !p.Running() {
		t.Errorf("the daemon noticed: %d keys, running %v", n, p.Running())
	}
	p.Stop(soon)
}
