package e2e

import (
	"strings"
	"testing"

	"github.com/troupehq/troupe/testkit"
)

// A daemon whose user lacks rights ends with code 1 and names them, with the user
// and the rule that grants them.
func TestADaemonWithoutRightsDoesNotStart(t *testing.T) {
	server := testkit.NewServer(t)
	admin := server.Client
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "worker", "on", ">pw", "~*", "&*", "+@all", "-evalsha", "-time").Err(); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(server.URL(0), "redis://", "redis://worker:pw@", 1)
	p := daemonSoon(t, url, "handlers: {NoOp: {builtin: noop}}\n")
	if code := p.Exit(soon); code != 1 {
		t.Errorf("exit code %d, expected 1", code)
	}
	const want = `"worker\" the rights that the daemon needs, missing are commands EVALSHA, TIME: grant them with ACL SETUSER worker +evalsha +time`
	if !strings.Contains(p.Stderr(), want) {
		t.Errorf("its log does not say %s:\n%s", want, p.Stderr())
	}
	if strings.Contains(p.Stderr(), "pw@") {
		t.Error("its log has the password")
	}
	if n := admin.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("it has left %d keys", n)
	}
}

// A daemon whose Redis does not know a command under its name ends with code 1 and says which.
func TestADaemonWithRenamedCommandsDoesNotStart(t *testing.T) {
	for _, name := range []string{"TIME", "MULTI"} {
		s, rdb := ownRedis(t, "--rename-command", name, "OTHER")
		p := daemonSoon(t, s.URL(0), "handlers: {NoOp: {builtin: noop}}\n")
		if code := p.Exit(soon); code != 1 {
			t.Errorf("exit code %d, expected 1", code)
		}
		if want := "does not know the commands that the daemon needs, missing are " + name + ": "; !strings.Contains(p.Stderr(), want) {
			t.Errorf("its log does not say %s:\n%s", want, p.Stderr())
		}
		if n := rdb.DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("it has left %d keys", n)
		}
	}
}
