package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// pushOne pushes a Record job of which only the jid is told.
func pushOne(t testing.TB, rdb *redis.Client, i int) (jid string) {
	t.Helper()
	jid = fmt.Sprintf("%024x", i+1)
	job := fmt.Sprintf(`{"retry":true,"queue":"default","class":"Record","args":[%d],"jid":%q,"created_at":1795224881.15,"enqueued_at":1795224881.15}`, i, jid)
	harness.OK(t, rdb.LPush(t.Context(), "queue:default", job).Err())
	return jid
}

// blocked is how many connections of the server at rdb wait for a job.
func blocked(t testing.TB, rdb *redis.Client) (n int) {
	t.Helper()
	for line := range strings.Lines(rdb.Info(t.Context(), "clients").Val()) {
		_, _ = fmt.Sscanf(line, "blocked_clients:%d", &n)
	}
	return jobsOnly(t, rdb, n)
}

// jobsOnly is n without the connections, one of each live process of troupe, that wait for
// requests of operators; -1 until one has a lease, as it cannot be told before. Each has one
// capsule.
func jobsOnly(t testing.TB, rdb *redis.Client, n int) int {
	t.Helper()
	alive := len(rdb.Keys(t.Context(), "troupe:lease:*").Val())
	if alive == 0 {
		return -1
	}
	return n - alive
}

// waiting is how many connections to the database of rdb wait for jobs in a BLMOVE.
func waiting(t testing.TB, rdb *redis.Client) (n int) {
	t.Helper()
	for line := range strings.Lines(rdb.ClientList(t.Context()).Val()) {
		if strings.Contains(line, fmt.Sprintf(" db=%d ", rdb.Options().DB)) && strings.Contains(line, " cmd=blmove ") {
			n++
		}
	}
	return jobsOnly(t, rdb, n)
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

// A capsule with as many waiters as a real, idle Sidekiq has threads gets about half of
// the jobs that are pushed one by one, with a single waiter the part of one thread.
func TestWaitersBesideAnIdleSidekiq(t *testing.T) {
	t.Parallel()
	for waiters, want := range map[int][2]int{1: {12, 30}, 5: {40, 65}} { // percent
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			t.Parallel()
			besideSidekiq(t, waiters, want[0], want[1])
		})
	}
}

func besideSidekiq(t *testing.T, waiters, least, most int) {
	t.Helper()
	const jobs, threads = 400, 5
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	rec := newRecords(t)
	sidekiq(t, server.URL(0), "-c", fmt.Sprint(threads), "-q", "default")
	startWorker(t, workerSpec{Redis: server.URL(0), Records: rec.url, Capsules: []capsuleSpec{
		{Concurrency: threads, Queues: []string{"default"}, Waiters: waiters},
	}})
	testkit.Await(t, "both are idle", func() bool { return blocked(t, rdb) == threads+waiters })
	theirs := func() int { return int(rdb.LLen(t.Context(), "e2e:ruby").Val()) }
	for i := range jobs {
		pushOne(t, rdb, i)
		testkit.Await(t, "the job has run", func() bool { return len(rec.find("end", ""))+theirs() > i })
	}
	ours := len(rec.find("end", ""))
	t.Logf("%d of %d jobs", ours, jobs)
	if percent := 100 * ours / jobs; percent < least || percent > most {
		t.Errorf("%d %% of the jobs, expected %d to %d", percent, least, most)
	}
	seen := map[string]int{}
	for _, e := range rec.find("start", "") {
		seen[e.JID]++
	}
	for _, text := range rdb.LRange(t.Context(), "e2e:ruby", 0, -1).Val() {
		var run rubyRun
		harness.OK(t, json.Unmarshal([]byte(text), &run))
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
func TestKilledWhileItWaits(t *testing.T) {
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
		testkit.Await(t, "both wait", func() bool { return blocked(t, rdb) == 2*2*threads })
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

// A process is frozen while it waits. What its waiting lists get meanwhile is put back by
// another; when it comes back, it has lost its lease, and nothing runs twice.
func TestFrozenWhileItWaits(t *testing.T) {
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
	id := frozen.Ready() + "#default.1"
	pushed := 0
	for {
		testkit.Await(t, "it waits", func() bool { return blocked(t, rdb) == jobs })
		frozen.Pause()
		if blocked(t, rdb) == jobs {
			for range jobs {
				pushOne(t, rdb, pushed)
				pushed++
			}
			if len(private(t, rdb)) == jobs {
				break
			} else if pushed == 5*jobs {
				t.Fatal("no job has come to the waiting lists")
			}
		}
		frozen.Resume() // its waits end by themselves
	}
	spec.Capsules[0].Waiters = 1
	startWorker(t, spec)
	ranOnce(t, rdb, rec, pushed)
	testkit.Await(t, "it is fenced", func() bool {
		return strings.HasPrefix(rdb.HGet(t.Context(), keys.SlotOf("default", false).Index(id), "!").Val(), "fenced")
	})
	frozen.Resume()
	testkit.Await(t, "it waits again", func() bool { return blocked(t, rdb) == jobs+1 })
	pushOne(t, rdb, pushed)
	ranOnce(t, rdb, rec, pushed+1)
}
