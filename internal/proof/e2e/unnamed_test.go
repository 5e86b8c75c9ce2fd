package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/testkit"
)

// A list of jobs in progress that no index names and whose process is gone is reported by doctor,
// taken by rescue, and run by a daemon.
func TestAListThatNoIndexNamesIsRun(t *testing.T) {
	s := testkit.NewServer(t)
	ctx := t.Context()
	path := procs.Command(t)
	troupe := func(args ...string) string {
		out, _ := exec.CommandContext(ctx, path, append(args, "--redis", s.URL(0))...).CombinedOutput() // doctor ends with code 1
		return string(out)
	}
	const key = "troupe:claim:gone:1:aa#default.1:7.1"
	lose := func() { s.Client.LPush(ctx, key, `{"class":"NoOp","args":[],"jid":"1","queue":"low"}`) }
	lose()
	if out := troupe("doctor"); !strings.Contains(out, key) {
		t.Errorf("doctor says %s", out)
	}
	if out := troupe("rescue", "--dry-run"); !strings.Contains(out, "would put back 1 job ") || s.Client.LLen(ctx, key).Val() != 1 {
		t.Errorf("rescue --dry-run says %s", out)
	}
	if out := troupe("rescue"); !strings.Contains(out, "put back 1 job: low 1") || s.Client.LLen(ctx, "queue:low").Val() != 1 || s.Client.Exists(ctx, key).Val() != 0 {
		t.Errorf("rescue says %s", out)
	}
	s.Client.Del(ctx, "queue:low")
	lose()
	daemonSoon(t, s.URL(0), "queues: [low]\nhandlers: {NoOp: {builtin: noop}}\n")
	testkit.Await(t, "the job is done", func() bool {
		return s.Client.Exists(ctx, key, "queue:low").Val() == 0 && s.Client.Get(ctx, "stat:processed").Val() == "1"
	})
	testkit.Await(t, "the rescue is an event", func() bool { return s.Client.Exists(ctx, "troupe:flights").Val() == 1 })
}
