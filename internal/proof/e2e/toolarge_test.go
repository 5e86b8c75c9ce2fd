package e2e

import (
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// A proxy in front of Redis takes no requests as large as a job. The job is acked all the same,
// and one whose retry cannot be sent goes into the dead set as it was fetched; neither holds up
// the others.
func TestASettlementThatCannotBeSent(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	way := newLossy(t, url)
	way.most.Store(600 << 10)
	p := startWorker(t, workerSpec{Redis: way.url, Records: rec.url})
	testkit.Await(t, "it waits for a push", func() bool { return waiting(t, rdb) == 1 })
	big := `["` + strings.Repeat("x", 700<<10) + `"]`
	done, _ := push(t, rdb, "Record", big)
	testkit.Await(t, "the large job is acked", func() bool { return len(rec.find("end", done)) == 1 && len(leftovers(t, rdb)) == 0 })

	fails, raw := push(t, rdb, "Fail", big)
	rec.await(soon, 1, "end", fails)
	var small []string
	for range 20 {
		jid, _ := push(t, rdb, "Fail", "[1]")
		small = append(small, jid)
	}
	next, _ := push(t, rdb, "Record", "[2]")
	rec.await(soon, 1, "end", next)
	harness.AwaitFor(t, 2*soon, "the small jobs are retries", func() bool { return rdb.ZCard(t.Context(), "retry").Val() == int64(len(small)) })
	harness.AwaitFor(t, 2*soon, "the large one is dead, as it was fetched", func() bool {
		dead := rdb.ZRange(t.Context(), "dead", 0, -1).Val()
		return len(dead) == 1 && dead[0] == raw
	})
	if lines := p.Logged("the outcome of a job is larger than what redis takes: the job goes into the dead set as it was fetched"); len(lines) != 1 {
		t.Errorf("%d lines in the log about it, expected 1", len(lines))
	}
	p.Stop(soon)
	harness.Equal(t, "the large job ran times", len(rec.find("start", fails)), 1)
	if private := private(t, rdb); len(private) > 0 {
		t.Errorf("%d jobs are left in progress", len(private))
	}
}
