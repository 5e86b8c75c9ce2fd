package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// hang pushes n jobs that hang on their first run and waits until they do.
func hang(t testing.TB, rdb *redis.Client, rec *records, n int) (raws map[string]string) {
	t.Helper()
	return hangAs(t, "HangOnce", rdb, rec, n)
}

// hangAs is hang for jobs of another class.
func hangAs(t testing.TB, class string, rdb *redis.Client, rec *records, n int) (raws map[string]string) {
	t.Helper()
	raws = map[string]string{}
	pipe := rdb.TxPipeline() // they come into the queue at once
	for i := range n {
		jid := fmt.Sprintf("%024x", i+1)
		raws[jid] = fmt.Sprintf(`{"retry":true,"queue":"default","class":%q,"args":[%d,1.10,1e3,"é<&>"],"jid":%q,`+
			`"created_at":1795224881.1534805,"enqueued_at":1795224881.153557,"custom":{"b":1,"a":2}}`, class, i, jid)
		pipe.LPush(t.Context(), "queue:default", raws[jid])
	}
	harness.Must(pipe.Exec(t.Context()))(t)
	rec.await(soon, n, "start", "")
	return raws
}

// rescued waits until the process p has run every job of raws, bytes unchanged,
// exactly once, and nothing is left.
func rescued(t testing.TB, rdb *redis.Client, rec *records, p *chaos.Process, raws map[string]string, limit time.Duration) {
	t.Helper()
	killed := time.Now()
	harness.AwaitFor(t, limit, "all jobs have run again", func() bool { return len(rec.find("end", "")) >= len(raws) })
	t.Logf("all %d jobs have run again %s after the kill", len(raws), time.Since(killed).Round(10*time.Millisecond))
	clean(t, rdb)
	again := map[string]int{}
	for _, e := range rec.find("start", "") {
		if e.Payload != raws[e.JID] {
			t.Errorf("%s ran as %s, pushed %s", e.JID, e.Payload, raws[e.JID])
		}
		if e.PID == p.PID() {
			again[e.JID]++
		}
	}
	for jid := range raws {
		if again[jid] != 1 {
			t.Errorf("%s ran %d times in the process that lives", jid, again[jid])
		}
	}
}

// With the default lease what a killed process held has run within 60 s.
func TestKilledProcessDefaultLease(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	spec := workerSpec{Redis: url, Records: rec.url, Capsules: []capsuleSpec{{Concurrency: 20, Queues: []string{"default"}}}}
	dies := startWorker(t, spec)
	raws := hang(t, rdb, rec, 20)
	lives := startWorker(t, spec)
	dies.Kill()
	rescued(t, rdb, rec, lives, raws, 60*time.Second)
}

// A process is killed in a call for many jobs, while more wait for one: all of them run again, in a process with one worker.
func TestKilledInACallForManyJobs(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	spec := workerSpec{Redis: url, Records: rec.url, Lease: 5 * time.Second, Capsules: []capsuleSpec{{Concurrency: 2, Queues: []string{"default"}}}}
	dies := startWorker(t, spec)
	raws := hangAs(t, "ManyOnce", rdb, rec, 40)
	spec.Capsules[0].Concurrency = 1
	lives := startWorker(t, spec)
	dies.Kill()
	rescued(t, rdb, rec, lives, raws, 60*time.Second)
}

// Two processes are killed at once.
func TestKilledProcessesShortLease(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	// none of the dying may lose its jobs while it lives
	spec := workerSpec{Redis: url, Records: rec.url, Lease: 5 * time.Second, Capsules: []capsuleSpec{{Concurrency: 20, Queues: []string{"default"}}}}
	var dying []*chaos.Process
	for range 2 {
		dying = append(dying, startWorker(t, spec))
	}
	raws := hang(t, rdb, rec, 40)
	lives := startWorker(t, spec)
	for _, p := range dying {
		p.Signal(syscall.SIGKILL)
	}
	rescued(t, rdb, rec, lives, raws, soon)
	// a process is forgotten after its jobs are back
	testkit.Await(t, "of the fetchers one is registered", func() bool { return rdb.HLen(t.Context(), "troupe:places").Val() == 1 })
}

// Most of the jobs were fetched and had not begun.
func TestKilledWhileFetched(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	spec := workerSpec{Redis: url, Records: rec.url, Lease: 2 * time.Second, Capsules: []capsuleSpec{{Concurrency: 200, Queues: []string{"default"}}}}
	dies := startWorker(t, spec)
	c := client.New(rdb)
	jids, err := c.PushBulkClass(t.Context(), "Nap", func(yield func([]any) bool) {
		for range 500 {
			if !yield([]any{0.05}) {
				return
			}
		}
	})
	harness.OK(t, err)
	rec.await(soon, 1, "start", "") // some of 200 run, some wait for their goroutine
	dies.Kill()
	held := len(private(t, rdb))
	t.Logf("killed with %d jobs fetched, %d begun, %d ended", held, len(rec.find("start", "")), len(rec.find("end", "")))
	startWorker(t, spec)
	testkit.Await(t, "every job has run", func() bool { return len(ran(rec)) == len(jids) })
	clean(t, rdb)
}

// ran are the jids that have run to their end without an error.
func ran(rec *records) map[string]int {
	rec.t.Helper()
	done := map[string]int{}
	for _, e := range rec.find("end", "") {
		if e.Error == "" {
			done[e.JID]++
		}
	}
	return done
}

// A process that is stopped for less than a lease keeps its jobs; after it, its
// jobs are another's, its handlers hear of it and its results are refused.
func TestPausedProcess(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	spec := workerSpec{Redis: url, Records: rec.url, Lease: 8 * time.Second}
	paused := startWorker(t, spec)
	other := spec
	other.Capsules = []capsuleSpec{{Concurrency: 1, Queues: []string{"other"}}}
	startWorker(t, other) // looks for the dead, and cannot run what it finds
	short, _ := push(t, rdb, "Nap", "[1.5]")
	rec.await(soon, 1, "start", short)
	paused.Signal(osproc.Pause)
	time.Sleep(1200 * time.Millisecond) // the length of the pause: leases are renewed before their last two thirds begin
	paused.Signal(osproc.Resume)
	rec.await(soon, 1, "end", short)
	clean(t, rdb)
	if runs := rec.find("start", short); len(runs) != 1 {
		t.Errorf("the job of a short pause ran %d times", len(runs))
	}

	long, _ := push(t, rdb, "HangOnce", "[]")
	rec.await(soon, 1, "start", long)
	paused.Signal(osproc.Pause)
	heir := startWorker(t, spec)
	ends := rec.await(soon, 1, "end", long)
	if ends[0].PID != heir.PID() || ends[0].Error != "" {
		t.Errorf("ended as %+v", ends[0])
	}
	paused.Signal(osproc.Resume)
	paused.AwaitLog("fenced: this process was taken for dead and its jobs were put back by another")
	ends = rec.await(soon, 2, "end", long)
	if ends[1].PID != paused.PID() || !strings.Contains(ends[1].Error, "fenced") {
		t.Errorf("in the paused process it ended as %+v", ends[1])
	}
	heir.Stop(soon)
	after, _ := push(t, rdb, "Record", "[]") // it goes on under a new incarnation
	rec.await(soon, 1, "end", after)
	clean(t, rdb)
	paused.Stop(soon)
}
