package periodic_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/periodic"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// realRig is a rig on a real Redis.
func realRig(rdb redis.UniversalClient) *rig {
	r := newRig(nil, nil)
	r.Store = &periodic.Store{Redis: rdb, Zone: time.UTC}
	r.Client = client.New(rdb)
	return r
}

// each tick comes once, whoever carries it out: two leaders at the same time, real Redis and a cluster.
func TestTwoLeadersPushOnce(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(t *testing.T) redis.UniversalClient{
		"server":  func(t *testing.T) redis.UniversalClient { rdb, _ := redistest.New(t); return rdb },
		"cluster": func(t *testing.T) redis.UniversalClient { rdb, _ := redistest.NewCluster(t); return rdb },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := connect(t)
			rigs := []*rig{realRig(rdb), realRig(rdb)}
			var list []troupe.Periodic
			for i := range 5 {
				list = append(list, troupe.Periodic{Name: fmt.Sprint("n", i), Cron: "* * * * * *", Class: "C", Queue: fmt.Sprint("q", i), Missed: troupe.MissedAll})
			}
			harness.OK(t, rigs[0].Store.Save(t.Context(), list...))
			var wg sync.WaitGroup
			end := time.Now().Add(3500 * time.Millisecond)
			for _, r := range rigs {
				wg.Go(func() {
					for time.Now().Before(end) {
						if _, err := r.Step(t.Context()); err != nil {
							t.Error(err)
						}
						time.Sleep(10 * time.Millisecond) // real time: ticks of Redis's clock
					}
				})
			}
			wg.Wait()
			told := len(rigs[0].ticks) + len(rigs[1].ticks)
			for i := range 5 {
				jobs := rdb.LLen(t.Context(), keys.Queue(fmt.Sprint("q", i))).Val()
				cluster := name == "cluster"
				marks := rdb.ZCard(t.Context(), keys.PeriodicMarks(keys.PeriodicJob("default", fmt.Sprint("n", i), cluster))).Val()
				if jobs < 3 || jobs != marks-1 {
					t.Errorf("n%d: %d jobs, %d marks", i, jobs, marks)
				}
				told -= int(jobs)
				known := rdb.SIsMember(t.Context(), keys.Queues, fmt.Sprint("q", i)).Val()
				harness.Equal(t, "the queue is known", known, true)
			}
			harness.Equal(t, "ticks told beside jobs", told, 0)
		})
	}
}

// On a cluster a leader that dies between the tick and the push leaves the push to the next one,
// which makes it once.
func TestAPushThatWasLeftOnACluster(t *testing.T) {
	t.Parallel()
	rdb, _ := redistest.NewCluster(t)
	r := realRig(rdb)
	harness.OK(t, r.Store.Save(t.Context(), troupe.Periodic{Name: "n", Cron: "0 0 1 1 *", Class: "C"}))
	key := keys.PeriodicJob("default", "n", true)
	for _, tick := range []string{"1700000000", "1700000060", "1700000000"} { // the last is a late copy of the first
		harness.OK(t, rdb.HSet(t.Context(), key, "troupe_push:"+tick, "late\n"+tick).Err())
		r.Stale()
		_, err := r.Step(t.Context())
		harness.OK(t, err)
	}
	harness.EqualList(t, "pushed", rdb.LRange(t.Context(), "queue:late", 0, -1).Val(), []string{"1700000060", "1700000000"})
	harness.Equal(t, "nothing is left", rdb.HExists(t.Context(), key, "troupe_push:1700000000").Val(), false)
}

// An entry whose queue is no list holds up no other one; when the queue is one again it has all its ticks.
func TestAQueueThatRefusesHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(t *testing.T) redis.UniversalClient{
		"server":  func(t *testing.T) redis.UniversalClient { rdb, _ := redistest.New(t); return rdb },
		"cluster": func(t *testing.T) redis.UniversalClient { rdb, _ := redistest.NewCluster(t); return rdb },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := connect(t)
			r := realRig(rdb)
			harness.OK(t, rdb.Set(t.Context(), keys.Queue("refuses"), "x", 0).Err())
			var list []troupe.Periodic
			for i := range 6 { // before and after it, in whichever order they are carried out
				list = append(list, troupe.Periodic{Name: fmt.Sprint("n", i), Cron: "* * * * * *", Class: "C", Queue: fmt.Sprint("q", i), Missed: troupe.MissedAll})
			}
			list[3].Queue = "refuses"
			harness.OK(t, r.Store.Save(t.Context(), list...))
			until := func(what string, done func() bool) {
				t.Helper()
				for end := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) { // real time: ticks of Redis's clock
					if time.Now().After(end) {
						t.Fatalf("%s: not within a minute; told %v", what, r.wrong)
					}
					if _, err := r.Step(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			jobs := func(i int) int64 { return rdb.LLen(t.Context(), keys.Queue(list[i].Queue)).Val() }
			marks := func(i int) int64 {
				return rdb.ZCard(t.Context(), keys.PeriodicMarks(keys.PeriodicJob("default", list[i].Name, name == "cluster"))).Val()
			}
			until("the others go on", func() bool {
				for i := range list {
					if i != 3 && jobs(i) < 4 {
						return false
					}
				}
				return true
			})
			if len(r.wrong) != 1 || !strings.HasPrefix(r.wrong[0], "n3: ") || !strings.Contains(r.wrong[0], "WRONGTYPE") {
				t.Errorf("told %q, expected once that n3's queue has the wrong type", r.wrong)
			}
			harness.OK(t, rdb.Del(t.Context(), keys.Queue("refuses")).Err())
			until("it has all its ticks", func() bool { return jobs(3) >= 5 && jobs(3) == marks(3)-1 })
			for i := range list {
				if i != 3 && jobs(i) != marks(i)-1 {
					t.Errorf("n%d: %d jobs, %d marks", i, jobs(i), marks(i))
				}
			}
		})
	}
}

// A job that a leader has left comes before those of later ticks, although the next leader has not seen it.
func TestAPushThatWasLeftComesFirst(t *testing.T) {
	t.Parallel()
	rdb, _ := redistest.NewCluster(t)
	r := realRig(rdb)
	harness.OK(t, r.Store.Save(t.Context(), troupe.Periodic{Name: "n", Cron: "* * * * * *", Class: "C", Queue: "q"}))
	step := func() {
		t.Helper()
		_, err := r.Step(t.Context())
		harness.OK(t, err)
		time.Sleep(10 * time.Millisecond) // real time: ticks of Redis's clock
	}
	step()
	harness.OK(t, rdb.HSet(t.Context(), keys.PeriodicJob("default", "n", true), "troupe_push:1700000000", "q\nleft", "troupe_push:1700000060", "other\nelsewhere").Err())
	e := harness.Must(r.Store.Find(t.Context(), "n", ""))(t)
	if why := e.Why(time.Now()); why != "its job of the tick of 2023-11-14 22:13:20 UTC has not reached its queue: no daemon leads the scheduler, or the queue takes no jobs" || !e.Stuck(time.Now()) {
		t.Errorf("it says %q", why)
	}
	for end := time.Now().Add(time.Minute); rdb.LLen(t.Context(), "queue:q").Val() < 3 && time.Now().Before(end); {
		step()
	}
	if got := rdb.LRange(t.Context(), "queue:q", 0, -1).Val(); len(got) < 3 || got[len(got)-1] != "left" && got[len(got)-2] != "left" {
		t.Errorf("pushed %q, expected the one that was left among the first", got)
	}
	e = harness.Must(r.Store.Find(t.Context(), "n", ""))(t)
	harness.Equal(t, "it is stuck afterwards", e.Stuck(time.Now()), false)
	harness.EqualList(t, "pushed elsewhere", rdb.LRange(t.Context(), "queue:other", 0, -1).Val(), []string{"elsewhere"})
}

// A Redis that is full takes no tick; when it has room the last one comes.
func TestTicksWhileRedisIsFull(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	r := realRig(rdb)
	harness.OK(t, r.Store.Save(t.Context(), troupe.Periodic{Name: "n", Cron: "* * * * * *", Class: "C", Missed: troupe.MissedAll}))
	_, err := r.Step(t.Context())
	harness.OK(t, err)
	harness.OK(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	refused := 0
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); {
		if _, err := r.Step(t.Context()); err != nil {
			harness.ErrorHas(t, "a tick", err, "OOM")
			refused++
		}
		time.Sleep(100 * time.Millisecond) // real time: ticks of Redis's clock
	}
	full := rdb.LLen(t.Context(), "queue:default").Val()
	harness.OK(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	r.Stale()
	_, err = r.Step(t.Context())
	harness.OK(t, err)
	jobs, marks := rdb.LLen(t.Context(), "queue:default").Val(), rdb.ZCard(t.Context(), "cron_job:default:n:enqueued").Val()
	if refused == 0 || full > 1 || jobs < 2 || jobs != marks-1 {
		t.Errorf("%d refused, %d jobs while full, %d afterwards of %d marks", refused, full, jobs, marks)
	}
}

// A thousand entries that are due at once come in one step, and each once.
func TestAThousandAtOnce(t *testing.T) {
	t.Parallel()
	rdb, _ := redistest.New(t)
	r := realRig(rdb)
	list := make([]troupe.Periodic, 1000)
	for i := range list {
		list[i] = troupe.Periodic{Name: fmt.Sprint("n", i), Cron: "* * * * * *", Class: "C", Args: []any{i}, Queue: fmt.Sprint("q", i%7)}
	}
	harness.OK(t, r.Store.Save(t.Context(), list...))
	_, err := r.Step(t.Context())
	harness.OK(t, err)
	r.ticks = nil
	for end := time.Now().Add(time.Minute); len(r.ticks) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) { // real time: the next tick
		_, err = r.Step(t.Context())
		harness.OK(t, err)
	}
	seen := map[string]bool{}
	for _, tick := range r.ticks {
		if seen[tick] {
			t.Errorf("%s twice", tick)
		}
		seen[tick] = true
	}
	if len(r.ticks) < 1000 {
		t.Errorf("%d ticks of 1000 entries", len(r.ticks))
	}
}
