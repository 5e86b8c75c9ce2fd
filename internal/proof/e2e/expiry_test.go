package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
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
