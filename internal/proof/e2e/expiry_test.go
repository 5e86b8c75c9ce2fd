package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// A handler of a file drops jobs that are late: they neither run nor fail.
func TestALateJobOfAFileIsDropped(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	out := filepath.Join(t.TempDir(), "jobs")
	p := daemon(t, url, fmt.Sprintf("log: json\nhandlers: {Mail: {exec: [/bin/sh, -c, 'echo ran >>%s'], expire_after: 1h, drop_expired: true}}\n", out))
	push := func(jid string, ago time.Duration) {
		t.Helper()
		at := time.Now().Add(-ago).Unix()
		harness.Check(t, rdb.LPush(t.Context(), "queue:default", fmt.Sprintf(`{"class":"Mail","args":[],"queue":"default","retry":true,"jid":%q,"created_at":%d.5,"enqueued_at":%d.5}`, jid, at, at)).Err())
	}
	push("late", 2*time.Hour)
	line := p.AwaitLog("job dropped: it has expired")
	harness.Equal(t, "the late job", fmt.Sprint(line["jid"], " ", line["outcome"]), "late expired")
	push("soon", time.Minute)
	harness.Equal(t, "the job that has run", fmt.Sprint(p.AwaitLog("job done")["jid"]), "soon")
	p.Stop(soon)
	harness.Equal(t, "runs", string(harness.Must(os.ReadFile(out))(t)), "ran\n")
	harness.Equal(t, "to be retried, or dead", rdb.Exists(t.Context(), "retry", "dead").Val(), 0)
	if failed := rdb.Get(t.Context(), "stat:failed").Val(); failed != "" && failed != "0" {
		t.Errorf("%s have failed", failed)
	}
	clean(t, rdb)
}

// The command takes the lock that the file gives a class, and the daemon frees it.
func TestPushesOfAClassThatIsUniqueInAFile(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	file := filepath.Join(t.TempDir(), "troupe.yml")
	config := "log: json\nhandlers: {Mail: {builtin: noop, unique: {by: [0], for: 1h}}, Other: {builtin: noop}}\n"
	harness.OK(t, os.WriteFile(file, []byte(config), 0o600))
	push := func(class, second string) (code int, text string) {
		t.Helper()
		p := procs.Troupe(t, nil, "push", "-C", file, "--redis", url, class, "7", second)
		return p.Exit(soon), p.Stdout() + p.Stderr()
	}
	code, jid := push("Mail", "a")
	harness.Equal(t, "exit code of the first push", code, 0)
	code, text := push("Mail", "b")
	if want := "duplicate: job " + strings.TrimSpace(jid) + " holds the lock "; code != 1 || !strings.Contains(text, want) {
		t.Errorf("the second push: exit code %d, %q, expected 1 and %q", code, text, want)
	}
	for range 2 {
		code, _ = push("Other", "a")
		harness.Equal(t, "exit code of a class that is not unique", code, 0)
	}
	p := daemon(t, url, config)
	testkit.Await(t, "all jobs are done", func() bool { return rdb.Get(t.Context(), "stat:processed").Val() == "3" })
	code, _ = push("Mail", "c")
	harness.Equal(t, "exit code of a push after the job is done", code, 0)
	p.Stop(soon)
}
