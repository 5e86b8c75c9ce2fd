package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// ownRedis is a server that a test may kill, with a client that does not mind.
func ownRedis(t testing.TB, args ...string) (*redistest.Server, *redis.Client) {
	t.Helper()
	s := redistest.Start(t, args...)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return s, rdb
}

func restart(t testing.TB, s *redistest.Server) {
	t.Helper()
	harness.OK(t, s.Restart())
}

// Redis dies for 5 s while jobs run, fail and panic; it has lost nothing.
func TestOutageLosesNoJob(t *testing.T) {
	t.Parallel()
	s, rdb := ownRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	rec := newRecords(t)
	p := startWorker(t, workerSpec{Redis: s.URL(0), Records: rec.url, Poll: time.Second, Capsules: []capsuleSpec{
		{Concurrency: 10, Queues: []string{"default"}}, {Name: "two", Concurrency: 5, Queues: []string{"default", "more"}},
	}})
	c := client.New(rdb)
	push := func(class, queue string, n int) []string {
		t.Helper()
		jids := harness.Must(c.PushBulkClass(t.Context(), class, numbered(n), client.Queue(queue)))(t)
		return jids
	}
	jids := slices.Concat(push("Mixed", "default", 1000), push("Mixed", "more", 300))
	rec.await(soon, 200, "end", "")
	failing, err := c.PushBulkClass(t.Context(), "NapFail", func(yield func([]any) bool) {
		_ = yield([]any{1.5}) && yield([]any{2})
	}, client.Queue("more"), client.Retry(3))
	harness.OK(t, err)
	testkit.Await(t, "a job that will fail during the outage", func() bool { return len(rec.find("start", failing[0])) == 1 })

	s.Kill()
	away := p.AwaitLog("redis is away")
	cpu := harness.CPU(t, p.PID())
	// The length of the outage is what is tested.
	time.Sleep(5 * time.Second)
	cpu = harness.CPU(t, p.PID()) - cpu
	runs := len(rec.find("start", ""))
	restart(t, s)
	back := time.Now()
	rec.await(soon, runs+1, "start", "")
	fetched := time.Since(back)
	line := p.AwaitLog("redis is back")
	t.Logf("away: %v; CPU in 5 s of outage: %s; first job %s after the restart; log line %s after it says %.1f s",
		away["error"], cpu, fetched.Round(time.Millisecond), time.Since(back).Round(time.Millisecond), line["downtime_s"])
	if cpu > time.Second { // with the race detector, too
		t.Errorf("the process took %s of CPU in an outage of 5 s", cpu)
	}

	testkit.Await(t, "the jobs that failed during the outage are retries", func() bool {
		return where(t, rdb, failing[0]) == "retry" && where(t, rdb, failing[1]) == "retry"
	})
	for _, m := range rdb.ZRange(t.Context(), "retry", 0, -1).Val() {
		if q := parsed(t, m); q.Class() == "NapFail" {
			rdb.ZRem(t.Context(), "retry", m)
		}
	}
	testkit.Await(t, "every job is done", func() bool { return len(ran(rec)) == len(jids) })
	clean(t, rdb)
	for jid, n := range ran(rec) {
		if n != 1 {
			t.Errorf("%s succeeded %d times", jid, n)
		}
	}
	if n, m := len(p.Logged("redis is away")), len(p.Logged("redis is back")); n != 1 || m != 1 {
		t.Errorf("%d log lines of the outage and %d of its end", n, m)
	}
	p.Stop(soon)
	processed := rdb.Get(t.Context(), "stat:processed").Val()
	if want := fmt.Sprint(len(rec.find("end", ""))); processed != want {
		t.Errorf("stat:processed is %s after %s executions", processed, want)
	}
}

// Redis comes back empty: what the process has in its hands is finished,
// settled, and not lost.
func TestOutageWithLossOfAllData(t *testing.T) {
	t.Parallel()
	s, rdb := ownRedis(t)
	rec := newRecords(t)
	p := startWorker(t, workerSpec{Redis: s.URL(0), Records: rec.url, Lease: 3 * time.Second})
	identity := p.Ready()
	done, _ := push(t, rdb, "Nap", "[3]")
	fails, _ := push(t, rdb, "NapFail", "[3]")
	hangs, raw := push(t, rdb, "HangOnce", `["é",1.10]`)
	rec.await(soon, 3, "start", "")
	s.Kill()
	p.AwaitLog("redis is away")
	restart(t, s)
	p.AwaitLog("redis is back")
	rec.await(soon, 1, "end", done)
	testkit.Await(t, "the failure is a retry and only the job that hangs is in progress", func() bool {
		return where(t, rdb, fails) == "retry" && slices.Equal(private(t, rdb), []string{raw})
	})
	harness.Equal(t, "the job that was done is in", where(t, rdb, done), "")
	next, _ := push(t, rdb, "Record", "[]")
	rec.await(soon, 1, "end", next)
	testkit.Await(t, "the process is known again", func() bool { return rdb.SIsMember(t.Context(), "processes", identity).Val() })
	harness.Equal(t, "runs of 4 jobs", len(rec.find("start", "")), 4)
	// The process dies with the job that hangs: it is in progress again.
	heir := startWorker(t, workerSpec{Redis: s.URL(0), Records: rec.url, Lease: 3 * time.Second})
	p.Kill()
	ends := rec.await(soon, 1, "end", hangs)
	if ends[0].PID != heir.PID() || ends[0].Payload != raw {
		t.Errorf("ended as %+v", ends[0])
	}
}

// A stop while Redis is away ends in time, with 0, and says where the jobs are.
func TestStopWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s, rdb := ownRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	rec := newRecords(t)
	spec := workerSpec{Redis: s.URL(0), Records: rec.url, Lease: 3 * time.Second, Timeout: time.Second, Capsules: []capsuleSpec{
		{Concurrency: 3, Queues: []string{"default"}},
		{Name: "risky", Concurrency: 1, Queues: []string{"risky"}, Fetch: "basic"},
	}}
	p := startWorker(t, spec)
	hangs, raw := push(t, rdb, "HangOnce", `["é",1.10]`)
	risky, _ := push(t, rdb, "HangOnce", `["basic"]`, client.Queue("risky"))
	rec.await(soon, 2, "start", "")
	riskyRaw := rec.find("start", risky)[0].Payload
	s.Kill()
	p.AwaitLog("redis is away")
	took := p.Stop(soon)
	t.Logf("ended after %s", took)
	if took > 15*time.Second {
		t.Errorf("ended after %s", took)
	}
	report := harness.Drain(t, p)
	if got := harness.Strs(report, "left"); !slices.Equal(got, []string{hangs}) {
		t.Errorf("left %v, want %s", got, hangs)
	}
	if got := harness.Strs(report, "lost"); !slices.Equal(got, []string{risky}) {
		t.Errorf("lost %v, want %s", got, risky)
	}
	lost := p.Logged("lost: Redis did not take the job back and this fetcher keeps nothing in progress")
	if len(lost) != 1 || harness.Str(lost[0], "payload") != riskyRaw {
		t.Errorf("log of the lost job: %v, want its bytes %s", lost, riskyRaw)
	}
	restart(t, s)
	startWorker(t, spec)
	if ends := rec.await(soon, 1, "end", hangs); ends[len(ends)-1].Payload != raw {
		t.Errorf("rescued as %s, pushed %s", ends[0].Payload, raw)
	}
	clean(t, rdb)
}
