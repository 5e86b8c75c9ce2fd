package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// A job that a process has fetched ahead, and that waits there behind a long one, is deleted by the command. The
// network is so slow that jobs are fetched ahead, and wait for seconds before they go back to their queue.
func TestTheCommandCancelsAJobThatIsFetchedAndHasNotBegun(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	proxy := chaos.NewProxy(t, rdb.Options())
	slow := proxy.Add(chaos.Fault{Command: "evalsha", Do: chaos.Effect{Delay: 2 * time.Second}})
	quick := func(n int) (jids []string) {
		for range n {
			jid, _ := push(t, rdb, "Record", "[]")
			jids = append(jids, jid)
		}
		return jids
	}
	quick(3) // the rate of these tells how many are fetched ahead
	nap, _ := push(t, rdb, "Nap", "[100]")
	behind := quick(8)
	p := daemon(t, fmt.Sprintf("redis://%s/%d", proxy.Listen(), rdb.Options().DB), commandConfig, "-c", "1")
	cancel := func(jid string) string {
		out, err := exec.CommandContext(t.Context(), procs.Command(t), "jobs", "cancel", jid, "--redis", url).CombinedOutput()
		if err != nil {
			t.Errorf("cancel %s: %v, %s", jid, err, out)
		}
		return string(out)
	}
	testkit.Await(t, "the long job has begun", func() bool {
		return slices.ContainsFunc(p.Logged("job output"), func(l harness.Line) bool { return harness.Str(l, "jid") == nap })
	})
	var deleted []string
	fetched := ""
	for _, jid := range behind {
		testkit.Await(t, "jobs behind it are fetched", func() bool { return where(t, rdb, jid) != "queue:default" })
		deleted = append(deleted, jid)
		if said := cancel(jid); strings.Contains(said, "it was fetched by ") {
			if want := "had not begun and is deleted\n"; !strings.HasSuffix(said, want) {
				t.Errorf("it says %q, want %q", said, want)
			}
			fetched = jid
			break // else it was back in its queue by then
		}
	}
	if fetched == "" {
		t.Errorf("none of %d jobs was cancelled where it waited", len(behind))
	}
	slow.Remove()
	if said := cancel(nap); !strings.Contains(said, "it runs in ") {
		t.Errorf("of the running job it says %q", said)
	}
	testkit.Await(t, "the others are done", func() bool { return len(p.Logged("job done")) == 3+len(behind)-len(deleted) })
	for _, l := range p.Logged("job done") {
		if jid := harness.Str(l, "jid"); slices.Contains(deleted, jid) {
			t.Errorf("%s was cancelled, and ran", jid)
		}
	}
	for _, jid := range deleted {
		if at := where(t, rdb, jid); at != "" {
			t.Errorf("%s was cancelled, and is in %s", jid, at)
		}
	}
}
