package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// What a job has pushed with its ack is not there when its process is killed before the end, and once when
// another has done it.
func TestAKilledJobHasPushedNothing(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	spec := workerSpec{Redis: url, Records: rec.url, Lease: 2 * time.Second}
	dies := startWorker(t, spec)
	jid, _ := push(t, rdb, "FanOnce", "[]")
	rec.await(soon, 1, "start", jid)
	dies.Kill()
	if n := rdb.Exists(t.Context(), "queue:low").Val(); n != 0 {
		t.Errorf("the job that was killed has pushed: %v", rdb.LRange(t.Context(), "queue:low", 0, -1).Val())
	}
	lives := startWorker(t, spec)
	rec.await(soon, 1, "end", jid)
	testkit.Await(t, "its children are in Redis", func() bool { return rdb.LLen(t.Context(), "queue:low").Val() > 0 })
	lives.Stop(soon)
	children := rdb.LRange(t.Context(), "queue:low", 0, -1).Val()
	harness.Equal(t, "children", len(children), 3)
	for i, raw := range children { // the newest first
		p := harness.Must(troupe.ParsePayload([]byte(raw)))(t)
		parent, _ := p.String("t_parent")
		if parent != jid || string(p.Args()) != fmt.Sprintf("[%d]", 2-i) {
			t.Errorf("child %d is %s", i, raw)
		}
	}
	rdb.Del(t.Context(), "queue:low")
	clean(t, rdb)
}

// napFor is a Nap.
type napFor struct {
	Seconds float64 `arg:"0"`
}

func (napFor) Class() string { return "Nap" }

// The jobs of a chain run one after the other, each pushed by the one before; the command runs it as well.
func TestAChainOfRealProcesses(t *testing.T) {
	forBoth(t, func(t *testing.T, p program) {
		rdb, url := redistest.New(t)
		var items []client.Item
		for i := range 3 {
			items = append(items, client.Job(napFor{0.01 * float64(i+1)}))
		}
		jids, err := client.New(rdb).PushChain(t.Context(), items...)
		harness.OK(t, err)
		raw := rdb.LRange(t.Context(), "queue:default", 0, -1).Val()
		if len(raw) != 1 || strings.Count(raw[0], `"jid`)+strings.Count(raw[0], `\"jid`) < 3 {
			t.Fatalf("the chain is %q", raw)
		}
		r := p.start(t, url, 25*time.Second)
		for _, jid := range jids {
			r.awaitBegun(jid)
		}
		testkit.Await(t, "all are done", func() bool { return rdb.Get(t.Context(), "stat:processed").Val() == "3" })
		r.Stop(soon)
		clean(t, rdb)
	})
}
