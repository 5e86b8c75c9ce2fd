package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redistest"
	"github.com/troupehq/troupe/testkit"
)

// pushOne pushes a Record job of which only the jid is told.
func pushOne(t testing.TB, rdb *redis.Client, i int) (jid string) {
	t.Helper()
	jid = fmt.Sprintf("%024x", i+1)
	job := fmt.Sprintf(`{"retry":true,"queue":"default","class":"Record","args":[%d],"jid":%q,"created_at":1795224881.15,"enqueued_at":1795224881.15}`, i, jid)
	if err := rdb.LPush(t.Context(), "queue:default", job).Err(); err != nil {
		t.Fatal(err)
	}
	return jid
}

// blocked is how many connections of the server at rdb wait for a job.
func blocked(t testing.TB, rdb *redis.Client) (n int) {
	t.Helper()
	for line := range strings.Lines(rdb.Info(t.Context(), "clients").Val()) {
		_, _ = fmt.Sscanf(line, "blocked_clients:%d", &n)
	}
	return n
}

// ranOnce wants each of n jobs run exactly once, and nothing left.
func ranOnce(t testing.TB, rdb *redis.Client, rec *records, n int) {
	t.Helper()
	rec.await(soon, n, "end", "")
	clean(t, rdb)
	runs := map[string]int{}
	for _, e := range rec.find("start", "") {
		if runs[e.JID]++; runs[e.JID] > 1 {
			t.Errorf("job %s ran %d times", e.JID, runs[e.JID])
		}
	}
	if len(runs) != n {
		t.Errorf("%d jobs ran, %d were pushed", len(runs), n)
	}
}

// A capsule with the share of a real, idle Sidekiq of the same size gets about
// half of the jobs that are pushed one by one.
func TestShareBesideAnIdleSidekiq(t *testing.T) {
	t.Parallel()
	const jobs, threads = 400, 5
	server := redistest.Start(t)
	url := server.URL(0)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	rec := newRecords(t)
	sidekiq(t, url, "-c", fmt.Sprint(threads), "-q", "default")
	startWorker(t, workerSpec{Redis: url, Records: rec.url, Capsules: []capsuleSpec{
		{Concurrency: threads, Queues: []string{"default"}, Waiters: threads},
	}})
	testkit.Await(t, soon, "both are idle", func() bool { return blocked(t, rdb) == 2*threads })
	theirs := func() int { return int(rdb.LLen(t.Context(), "e2e:ruby").Val()) }
	for i := range jobs {
		pushOne(t, rdb, i)
		testkit.Await(t, soon, "the job has run", func() bool { return len(rec.find("end", ""))+theirs() > i })
	}
	ours := len(rec.find("end", ""))
	t.Logf("%d of %d jobs", ours, jobs)
	if ours < jobs*3/10 || ours > jobs*7/10 {
		t.Errorf("%d of %d jobs, expected about a half", ours, jobs)
	}
	seen := map[string]int{}
	for _, e := range rec.find("start", "") {
		seen[e.JID]++
	}
	for _, text := range rdb.LRange(t.Context(), "e2e:ruby", 0, -1).Val() {
		var run rubyRun
		if err := json.Unmarshal([]byte(text), &run); err != nil {
			t.Fatal(err)
		}
		seen[run.JID]++
	}
	for jid, n := range seen {
		if n != 1 {
			t.Errorf("job %s ran %d times", jid, n)
		}
	}
	if len(seen) != jobs {
		t.Errorf("%d jobs ran, %d were pushed", len(seen), jobs)
	}
	clean(t, rdb)
}

// A process is killed while it waits for jobs and others are pushed: what its
// connections still get is run by another.
func TestShareKilledWhileItWaits(t *testing.T) {
	t.Parallel()
	const jobs, kills, threads = 300, 3, 4
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	rec := newRecords(t)
	spec := workerSpec{Redis: server.URL(0), Records: rec.url, Lease: time.Second, Capsules: []capsuleSpec{
		{Concurrency: threads, Queues: []string{"default", "other"}, Waiters: threads},
	}}
	startWorker(t, spec)
	for kill := range kills {
		dies := startWorker(t, spec)
		testkit.Await(t, soon, "both wait", func() bool { return blocked(t, rdb) == 2*2*threads })
		for i := range jobs / kills {
			pushOne(t, rdb, kill*jobs/kills+i)
			if i == 50 {
				dies.Kill()
			}
		}
	}
	rec.await(2*soon, jobs, "end", "")
	clean(t, rdb)
	ran := map[string]bool{}
	for _, e := range rec.find("end", "") {
		ran[e.JID] = true
	}
	if len(ran) != jobs {
		t.Errorf("%d jobs ran, %d were pushed", len(ran), jobs)
	}
}

// A process is frozen while it waits. What its connections get is put back by a
// process that has no share and does not look into laps; when it comes back, it
// has lost its lease, and nothing runs twice.
func TestShareFrozenWhileItWaits(t *testing.T) {
	t.Parallel()
	const jobs = 4
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	rec := newRecords(t)
	spec := workerSpec{Redis: server.URL(0), Records: rec.url, Lease: time.Second, Capsules: []capsuleSpec{
		{Concurrency: jobs, Queues: []string{"default"}, Waiters: jobs},
	}}
	frozen := startWorker(t, spec)
	lap := keys.Lap("default")
	pushed := 0
	for {
		testkit.Await(t, soon, "it waits", func() bool { return blocked(t, rdb) == jobs })
		frozen.Pause()
		if blocked(t, rdb) == jobs {
			for range jobs {
				pushOne(t, rdb, pushed)
				pushed++
			}
			if rdb.LLen(t.Context(), lap).Val() > 0 {
				break
			} else if pushed == 5*jobs {
				t.Fatal("no job has come to the lap")
			}
		}
		frozen.Resume() // its commands end by themselves every two seconds
	}
	spec.Capsules[0].Waiters = 0
	startWorker(t, spec)
	ranOnce(t, rdb, rec, pushed)
	testkit.Await(t, soon, "it is fenced", func() bool { return len(rdb.Keys(t.Context(), keys.Fenced("*")).Val()) > 0 })
	frozen.Resume()
	testkit.Await(t, soon, "it waits again", func() bool { return blocked(t, rdb) == jobs })
	pushOne(t, rdb, pushed)
	ranOnce(t, rdb, rec, pushed+1)
}
