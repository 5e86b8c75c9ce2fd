package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/redistest"
	"github.com/troupehq/troupe/testkit"
)

// The process that listens for pushes dies, or stands still: its deputy, another
// process, runs the next job long before the look that each makes after 5 s.
func TestTheHolderOfTheBatonDies(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*testkit.Process){
		"killed": func(p *testkit.Process) { p.Kill() },
		"paused": func(p *testkit.Process) { p.Pause() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const rung = 2500 * time.Millisecond // half of the time between two looks
			took := afterTheHolder(t, fault)
			if took > rung { // a loaded machine is not slow every time
				took = afterTheHolder(t, fault)
			}
			if took > rung {
				t.Errorf("run after %s", took)
			}
		})
	}
}

// afterTheHolder is how long a job waits that is pushed when something has
// happened to the process that listens.
func afterTheHolder(t *testing.T, fault func(*testkit.Process)) time.Duration {
	t.Helper()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	byIdentity := map[string]*testkit.Process{}
	for range 3 {
		p := startWorker(t, workerSpec{Redis: url, Records: rec.url})
		byIdentity[p.Ready()] = p
	}
	var holder *testkit.Process
	testkit.Await(t, soon, "one holds the baton, one is its deputy", func() bool {
		batons := rdb.Keys(t.Context(), "troupe:baton:*").Val()
		lines := rdb.Keys(t.Context(), "troupe:line:*").Val()
		if len(batons) != 1 || len(lines) != 1 || rdb.ZCard(t.Context(), lines[0]).Val() < 2 {
			return false
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(rdb.Get(t.Context(), batons[0]).Val(), "troupe:wake:"), "#")
		holder = byIdentity[name]
		return holder != nil
	})
	fault(holder)
	pushed := time.Now()
	jid, _ := push(t, rdb, "Record", "[]")
	runs := rec.await(soon, 1, "end", jid)
	if runs[0].PID == holder.PID() {
		t.Error("the one that is gone has run it")
	}
	took := time.Unix(0, runs[0].At).Sub(pushed)
	t.Logf("run after %s", took)
	return took
}
