package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/rights"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/testkit"
)

// A daemon whose user lacks rights ends with code 1 and names them, with the user
// and the rule that grants them.
func TestADaemonWithoutRightsDoesNotStart(t *testing.T) {
	server := testkit.NewServer(t)
	admin := server.Client
	harness.OK(t, admin.Do(t.Context(), "ACL", "SETUSER", "worker", "on", ">pw", "~*", "&*", "+@all", "-evalsha", "-time").Err())
	url := strings.Replace(server.URL(0), "redis://", "redis://worker:pw@", 1)
	p := daemonSoon(t, url, "handlers: {NoOp: {builtin: noop}}\n")
	harness.Equal(t, "exit code", p.Exit(soon), 1)
	const want = `"worker\" the rights that the daemon needs, missing are commands EVALSHA, TIME: grant them with ACL SETUSER worker +evalsha +time`
	if !strings.Contains(p.Stderr(), want) {
		t.Errorf("its log does not say %s:\n%s", want, p.Stderr())
	}
	if strings.Contains(p.Stderr(), "pw@") {
		t.Error("its log has the password")
	}
	harness.Equal(t, "it has left keys", admin.DBSize(t.Context()).Val(), 0)
}

// A daemon whose Redis does not know a command under its name ends with code 1 and says which.
func TestADaemonWithRenamedCommandsDoesNotStart(t *testing.T) {
	for _, name := range []string{"TIME", "MULTI"} {
		s, rdb := ownRedis(t, "--rename-command", name, "OTHER")
		p := daemonSoon(t, s.URL(0), "handlers: {NoOp: {builtin: noop}}\n")
		harness.Equal(t, "exit code", p.Exit(soon), 1)
		if want := "does not know the commands that the daemon needs, missing are " + name + ": "; !strings.Contains(p.Stderr(), want) {
			t.Errorf("its log does not say %s:\n%s", want, p.Stderr())
		}
		harness.Equal(t, "it has left keys", rdb.DBSize(t.Context()).Val(), 0)
	}
}

// Who may only look has a screen that says so at its start, and acts on nothing.
func TestTopForWhoMayOnlyLook(t *testing.T) {
	path := procs.Command(t)
	server := testkit.NewServer(t)
	args := []any{"ACL", "SETUSER", "looks", "on", ">pw"}
	for _, r := range (rights.Tool{}).Rule() {
		args = append(args, r)
	}
	harness.OK(t, server.Client.Do(t.Context(), args...).Err())
	server.Client.ZAdd(t.Context(), "dead", redis.Z{Score: 1, Member: `{"class":"Pay","args":[],"jid":"d1"}`})
	term := newTerminal(t, 120, 24)
	term.line(path + " top :dead --redis " + strings.Replace(server.URL(0), "redis://", "redis://looks:pw@", 1))
	screen := term.await("d1")
	if !strings.Contains(screen, `"looks" the rights that acting here needs, missing are commands`) || !strings.Contains(screen, "read-only") {
		t.Errorf("it does not say what is missing:\n%s", screen)
	}
	term.keys("D")
	term.await("acting here needs")
	term.keys("y")
	term.keys("q")
	term.restored(0)
	harness.Equal(t, "are dead", server.Client.ZCard(t.Context(), "dead").Val(), 1)
}

// A daemon with a dashboard names at its start what the dashboard's user lacks, and runs. With both
// rules its pages lack nothing.
func TestTheDashboardOfADaemonNamesMissingRights(t *testing.T) {
	text := harness.Must(os.ReadFile("../../../docs/scaling.md"))(t)
	_, rule, _ := strings.Cut(string(text), "ACL SETUSER troupe on >PASSWORD\n")
	rule, _, _ = strings.Cut(rule, "```")
	server := testkit.NewServer(t)
	for user, more := range map[string][]string{"worker": nil, "both": rights.Dashboard(true, false).Rule()} {
		args := []any{"ACL", "SETUSER", user, "on", ">pw"}
		for _, r := range append(strings.Fields(rule), more...) {
			args = append(args, r)
		}
		harness.OK(t, server.Client.Do(t.Context(), args...).Err())
		p := daemonSoon(t, strings.Replace(server.URL(0), "redis://", "redis://"+user+":pw@", 1), "handlers: {NoOp: {builtin: noop}}\n", "--web", "127.0.0.1:0")
		p.AwaitLog("troupe is running")
		const want = `the rights that the dashboard needs, missing are commands MGET`
		if said := strings.Contains(p.Stderr(), want); said != (user == "worker") {
			t.Errorf("the daemon of %s has said %v what its dashboard lacks:\n%s", user, said, p.Stderr())
		}
		p.Stop(soon)
	}
}
