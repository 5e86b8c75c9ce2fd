package e2e

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
)

// What Redis refuses of a daemon does not end rescue: with the default lease the jobs of a process
// that is killed meanwhile have run within 60 s.
func TestRescueWhileRedisRefuses(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(t *testing.T, rdb *redis.Client){
		"memory": func(t *testing.T, rdb *redis.Client) {
			harness.OK(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			if err := rdb.LPush(t.Context(), "other", "x").Err(); !redis.HasErrorPrefix(err, "OOM") {
				t.Fatalf("a push: %v, expected OOM", err)
			}
		},
		"MULTI": func(t *testing.T, rdb *redis.Client) {
			harness.OK(t, rdb.Do(t.Context(), "ACL", "SETUSER", "worker", "-multi").Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, rdb := ownRedis(t)
			harness.OK(t, rdb.Do(t.Context(), "ACL", "SETUSER", "worker", "on", ">pw", "~*", "&*", "+@all").Err())
			rec := newRecords(t)
			spec := workerSpec{Redis: "redis://worker:pw@" + s.Addr + "/0", Records: rec.url, Capsules: []capsuleSpec{{Concurrency: 20, Queues: []string{"default"}}}}
			dies := startWorker(t, spec)
			raws := hang(t, rdb, rec, 20)
			lives := startWorker(t, spec)
			refuse(t, rdb)
			dies.Kill()
			rescued(t, rdb, rec, lives, raws, 60*time.Second)
		})
	}
}

// A process that starts when Redis is back after more than a lease, with older data, takes nothing
// from those which live: no job runs twice, and none is lost.
func TestARescuerThatStartsAfterAnOutage(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	s, rdb := ownRedis(t)
	rec := newRecords(t)
	spec := workerSpec{Redis: s.URL(0), Records: rec.url, Lease: lease, Capsules: []capsuleSpec{{Concurrency: 9, Queues: []string{"default"}}}}
	startWorker(t, spec)
	startWorker(t, spec)
	push := func(n int) {
		t.Helper()
		if _, err := client.New(rdb).PushBulkClass(t.Context(), "Nap", func(yield func([]any) bool) {
			for range n {
				if !yield([]any{20}) {
					return
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	push(10)
	rec.await(soon, 10, "start", "")
	harness.OK(t, rdb.Save(t.Context()).Err())
	push(8)
	rec.await(soon, 18, "start", "")
	s.Kill()
	time.Sleep(lease + time.Second) // the length of the outage is what is tested
	restart(t, s)
	starts := startWorker(t, spec)
	rec.await(2*soon, 18, "end", "")
	clean(t, rdb)
	harness.Equal(t, "runs of 18 jobs", len(rec.find("start", "")), 18)
	for _, e := range rec.find("end", "") {
		if e.PID == starts.PID() || e.Error != "" {
			t.Errorf("ended in process %d of those that live: %s", e.PID, e.Error)
		}
	}
}
