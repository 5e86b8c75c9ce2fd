package sched_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/sched"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// lead runs poll until stop is called.
func lead(t *testing.T, cfg sched.Config) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); poll(ctx, cfg) }()
	return func() { cancel(); <-done }
}

// once checks that the queue q holds each of these jobs once, and nothing else.
func once(t *testing.T, rdb *redis.Client, members []string) {
	t.Helper()
	seen := map[string]int{}
	for _, raw := range rdb.LRange(context.Background(), "queue:q", 0, -1).Val() {
		seen[unstamped(t, raw)]++
	}
	for _, m := range members {
		if seen[m] != 1 {
			t.Fatalf("%s came %d times", m, seen[m])
		}
	}
	harness.Equal(t, "different jobs", len(seen), len(members))
}

// Jobs start exactly at their time, though so many retries become due at the same
// instant. The embedded Redis sorts a set anew for each command: with 100,000 the test
// would take many minutes. On a real one there is
// TestAScheduledJobIsOnTimeBesideABacklogOfRetries.
func TestJobsAreExactlyOnTimeBesideABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		ctx := t.Context()
		stop := lead(t, sched.Config{Redis: mem.Client, Identity: "a"})
		time.Sleep(1300 * time.Millisecond)
		var retries []string
		for i := range 3 {
			at := time.Now().Add(500*time.Millisecond + time.Duration(i)*77*time.Microsecond)
			var z []redis.Z
			for range 4000 {
				retries = append(retries, job(len(retries), "q"))
				z = append(z, redis.Z{Score: scores.Of(at), Member: retries[len(retries)-1]})
			}
			harness.OK(t, mem.Client.ZAdd(ctx, "retry", z...).Err())
			add(t, mem.Client, keys.Schedule, at, job(10_000_000+i, "due")) // as Ruby does: nobody rings
			harness.Must(mem.Client.BRPop(ctx, time.Minute, "queue:due").Result())(t)
			if late := time.Since(at); late < 0 || late > 2*time.Microsecond {
				t.Errorf("number %d was %v late", i, late)
			}
			synctest.Wait()
			harness.Equal(t, "retries are not on time", mem.Client.ZCard(ctx, "retry").Val(), 0)
		}
		stop()
		once(t, mem.Client, retries)
	})
}

// Two that both take themselves for the leader move each job once.
func TestTwoLeadersMoveEachJobOnce(t *testing.T) {
	rdb, _ := redistest.New(t)
	var stops []func()
	for range 2 {
		c := redis.NewClient(rdb.Options())
		defer func() { _ = c.Close() }()
		stops = append(stops, lead(t, sched.Config{Redis: c, Identity: "same", Batch: 50})) // with one identity both have the lock
	}
	var members []string
	for i := range 4000 {
		members = append(members, job(i, "q"))
	}
	add(t, rdb, keys.Schedule, time.Now().Add(-time.Hour), members[:2000]...)
	add(t, rdb, keys.Schedule, time.Now().Add(200*time.Millisecond), members[2000:]...)
	testkit.Await(t, "all have moved", func() bool { return rdb.ZCard(t.Context(), "schedule").Val() == 0 })
	for _, stop := range stops {
		stop()
	}
	once(t, rdb, members)
}

// The leader dies without a word: what is due meanwhile is 2 s late at most.
func TestALeadersDeathMakesJobsTwoSecondsLateAtMost(t *testing.T) {
	for after := range 10 {
		synctest.Test(t, func(t *testing.T) {
			mem := testkit.NewMemory(t)
			faults := chaos.NewProxy(t, mem.Options())
			a := lead(t, sched.Config{Redis: faults.Client(), Identity: "a"})
			time.Sleep(time.Second)
			b := lead(t, sched.Config{Redis: mem.Client, Identity: "b"})
			time.Sleep(time.Minute + time.Duration(after)*170*time.Millisecond)
			if got := mem.Client.Get(t.Context(), "troupe:poller").Val(); got != "a" {
				t.Fatalf("%q leads", got)
			}
			faults.Kill()
			at := time.Now()
			add(t, mem.Client, keys.Schedule, at, job(1, "due"))
			harness.Must(mem.Client.BRPop(t.Context(), time.Minute, "queue:due").Result())(t)
			if late := time.Since(at); late > 2*time.Second {
				t.Errorf("%v late", late)
			}
			faults.Restart()
			a()
			b()
			time.Sleep(time.Minute) // dials that go-redis has under way in the background
		})
	}
}

// The clock of Redis decides, whatever that of the leader says.
func TestTheClockOfRedisDecides(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := testkit.NewMemory(t)
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				mem.SetTime(time.Now().Add(skew))
				wg.Go(func() {
					for ctx.Err() == nil {
						time.Sleep(time.Millisecond)
						mem.SetTime(time.Now().Add(skew))
					}
				})
				stop := lead(t, sched.Config{Redis: mem.Client, Identity: "a"})
				time.Sleep(time.Second)
				for range 3 {
					at := time.Now().Add(1700 * time.Millisecond)
					add(t, mem.Client, keys.Retry, at.Add(skew), job(1, "due"))
					for mem.Client.LLen(ctx, "queue:due").Val() == 0 {
						time.Sleep(time.Millisecond)
					}
					if late := time.Since(at); late < -2*time.Millisecond || late > 5*time.Millisecond {
						t.Errorf("%v late", late)
					}
					mem.Client.Del(ctx, "queue:due")
				}
				stop()
				cancel()
				wg.Wait()
			})
		})
	}
}

// Whichever of the two steps is lost, before or after Redis has done it, or done
// twice: each job moves once.
func TestLostRepliesOfEitherStep(t *testing.T) {
	isEval := func(c []string) bool { return strings.HasPrefix(c[0], "eval") }
	for step, key := range map[string]string{"due": "troupe:poller", "move": "queues"} {
		for name, effect := range map[string]chaos.Effect{
			"cut before": {Cut: true}, "cut after": {Cut: true, Applied: true}, "twice": {Twice: true},
			"late": {Delay: 2 * time.Second}, "mute": {Mute: true, Applied: true},
		} {
			t.Run(step+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mem := testkit.NewMemory(t)
					faults := chaos.NewProxy(t, mem.Options())
					o := faults.Options()
					o.ReadTimeout, o.ContextTimeoutEnabled = 3*time.Second, true
					rdb := redis.NewClient(o)
					defer func() { _ = rdb.Close() }()
					stop := lead(t, sched.Config{Redis: rdb, Identity: "a", Batch: 20})
					time.Sleep(time.Second)
					rule := faults.Add(chaos.Fault{Mentions: key, Where: isEval, Do: effect, Skip: 1, Times: 3})
					var members []string
					for i := range 200 {
						members = append(members, job(i, "q"))
					}
					add(t, mem.Client, keys.Schedule, time.Now().Add(-time.Minute), members...)
					for start := time.Now(); mem.Client.ZCard(t.Context(), "schedule").Val() > 0; time.Sleep(time.Second) {
						if time.Since(start) > 5*time.Minute {
							t.Fatal("some are left")
						}
					}
					stop()
					harness.Equal(t, "faults", rule.Hits(), 3)
					once(t, mem.Client, members)
				})
			})
		}
	}
}

// Middleware that takes 200 ms a job, while the lock goes to another process: both
// prepare the same jobs, each moves once.
func TestASlowPreparationLosesTheLockWithoutHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var prepared atomic.Int64
		slow := func(next client.PushFunc) client.PushFunc {
			return func(ctx context.Context, p *troupe.Payload) error {
				time.Sleep(200 * time.Millisecond)
				prepared.Add(1)
				return next(ctx, p)
			}
		}
		var stops []func()
		for _, id := range []string{"a", "b", "c"} {
			stops = append(stops, lead(t, sched.Config{Redis: mem.Client, Identity: id, Client: client.New(mem.Client, client.WithMiddleware(slow))}))
			time.Sleep(100 * time.Millisecond)
		}
		var members []string
		for i := range 100 {
			members = append(members, job(i, "q"))
		}
		add(t, mem.Client, keys.Retry, time.Now().Add(-time.Minute), members...)
		for i := 0; mem.Client.ZCard(t.Context(), "retry").Val() > 0; i++ {
			if i > 1000 {
				t.Fatal("some are left")
			}
			time.Sleep(130 * time.Millisecond)
			harness.OK(t, mem.Client.Set(t.Context(), "troupe:poller", fmt.Sprintf("%c", "abc"[i%3]), 1500*time.Millisecond).Err())
		}
		for _, stop := range stops {
			stop()
		}
		if prepared.Load() <= 100 {
			t.Error("no two have prepared the same job: nothing was tried")
		}
		once(t, mem.Client, members)
	})
}

// A job that was put off while it was prepared waits for its new time.
func TestAJobThatIsPutOffMeanwhileStays(t *testing.T) {
	rdb, _ := redistest.New(t)
	later := scores.Of(time.Now().Add(time.Hour))
	putOff := func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			if string(p.Args()) == "[1]" {
				rdb.ZAddXX(ctx, "schedule", redis.Z{Score: later, Member: job(1, "q")})
			}
			return next(ctx, p)
		}
	}
	s := sched.New(sched.Config{Redis: rdb, Client: client.New(rdb, client.WithMiddleware(putOff))})
	add(t, rdb, keys.Schedule, time.Now().Add(-time.Minute), job(1, "q"), job(2, "q"))
	if got := drain(t, s, keys.Schedule); got.Moved != 1 || rdb.ZScore(t.Context(), "schedule", job(1, "q")).Val() != later {
		t.Errorf("%+v", got)
	}
	once(t, rdb, []string{job(2, "q")})
}
