package actors_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/troupehq/troupe/internal/test/redistest.startOnThread.func1"), // lives as long as the server
	)
}

// The whole protocol in virtual time: jobs that end, one that obeys its context,
// one that is unresponsive; deadline at 25 s, grace of 3 s.
func TestStopProtocolInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		mem := testkit.NewMemory(t)
		k := testkit.Start(t, actors.Config{
			Redis: mem.Client, Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 4}},
		})
		short := push(k, 1, script.Slow(10*time.Second))[0]
		obedient := push(k, 1, script.Hang())[0]
		unresponsive := push(k, 1, script.Step{Do: "unresponsive"})[0]
		k.Await("three run", func() bool { return k.Stats().Busy == 3 })
		bytes := map[string]bool{}
		for _, job := range jobsInProgress(t, k.Redis) {
			bytes[job] = true
		}
		began := time.Now()
		var atCancel int64
		causes := make(chan error, 9)
		s.OnCancel = func(job context.Context) {
			causes <- context.Cause(job)
			atCancel = k.Redis.LLen(ctx, "queue:default").Val()
		}
		go func() { _, _ = k.Daemon.Stop(context.Background()) }() // a second stop changes nothing
		time.Sleep(time.Second)
		during := k.Push(script.OK()) // pushed while stopping: stays in the queue
		r := k.Stop()
		took := time.Since(began)
		synctest.Wait()
		if took < 28*time.Second || took > 29*time.Second {
			t.Errorf("the stop took %s, want 25 s and 3 s of grace", took)
		}
		jids := func(refs []actors.JobRef) (out []string) {
			for _, r := range refs {
				out = append(out, r.JID)
			}
			slices.Sort(out)
			return out
		}
		if got := jids(r.Finished); !slices.Equal(got, []string{short}) {
			t.Errorf("finished %q, want %q", got, short)
		}
		if got := jids(r.Requeued); !slices.Equal(got, sorted(obedient, unresponsive)) {
			t.Errorf("requeued %q, want %q and %q", got, obedient, unresponsive)
		}
		if got := jids(r.Abandoned); !slices.Equal(got, []string{unresponsive}) {
			t.Errorf("abandoned %q, want %q", got, unresponsive)
		}
		if len(causes) != 1 || !errors.Is(<-causes, troupe.ErrShutdown) {
			t.Error("one context was to be cancelled, with ErrShutdown")
		}
		// the end that is popped next has the interrupted jobs, bytes unchanged
		queue := k.Redis.LRange(ctx, "queue:default", 0, -1).Val()
		if len(queue) != 3 || !bytes[queue[1]] || !bytes[queue[2]] {
			t.Errorf("queue after the stop: %q", queue)
		} else if p, err := troupe.ParsePayload([]byte(queue[0])); err != nil || p.JID() != during {
			t.Errorf("the head of the queue is %q, want the job pushed meanwhile", queue[0])
		}
		harness.Equal(t, "jobs were in the queue when the contexts were cancelled, want all 3: requeue comes first", atCancel, 3)
		s.Release()
		synctest.Wait()
		harness.Equal(t, "jobs in the queue after the unresponsive one ended late", k.Redis.LLen(ctx, "queue:default").Val(), 3)
		harness.Equal(t, "units in progress", inProgress(t, k.Redis), 0)
	})
}

func TestStopEndsAsSoonAsTheLastJobDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, actors.Config{Registry: s.Registry()})
		push(k, 3, script.Slow(7*time.Second))
		k.Await("three run", func() bool { return k.Stats().Busy == 3 })
		began := time.Now()
		r := k.Stop()
		if took := time.Since(began); took < 6*time.Second || took > 8*time.Second {
			t.Errorf("took %s, the last job ended after 7 s", took)
		}
		if len(r.Finished) != 3 || len(r.Requeued) != 0 {
			t.Errorf("drain report: %s", r)
		}
	})
}

func TestQuietStopsFetchingAndKeepsBeating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, actors.Config{Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 2}}})
		push(k, 2, script.Slow(time.Minute))
		k.Await("two run", func() bool { return k.Stats().Busy == 2 })
		k.Quiet()
		push(k, 5, script.OK())
		time.Sleep(30 * time.Second)
		if got := k.Stats(); got.Busy != 2 || got.Processed != 0 {
			t.Errorf("after 30 s of quiet: %+v", got)
		}
		harness.Equal(t, "quiet is shown as", k.Redis.HGet(ctx, k.Identity(), "quiet").Val(), "true")
		time.Sleep(40 * time.Second)
		if got := k.Stats(); got.Busy != 0 || got.Processed != 2 {
			t.Errorf("after the jobs ended: %+v", got)
		}
		harness.Equal(t, "jobs wait", k.Redis.LLen(ctx, "queue:default").Val(), 5)
		for _, n := range k.Tree() {
			gone := n.Role == "processor" || n.Role == "fetcher" || n.Role == "poller"
			if gone != (n.State == actors.StateStopped) {
				t.Errorf("%s is %s after quiet", n.Path, n.State)
			}
		}
		began := time.Now()
		k.Stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("a stop of a drained process took %s", took)
		}
	})
}

func TestRemoteSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, actors.Config{Registry: s.Registry()})
		k.Await("registered", func() bool { return k.Redis.Exists(ctx, k.Identity()).Val() == 1 })
		k.Redis.LPush(ctx, k.Identity()+"-signals", "TTIN")
		k.Redis.LPush(ctx, k.Identity()+"-signals", "BOGUS")
		k.Redis.LPush(ctx, k.Identity()+"-signals", "TSTP")
		began := time.Now()
		k.Await("quiet", func() bool { return k.Redis.HGet(ctx, k.Identity(), "quiet").Val() == "true" })
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("quiet after %s", took)
		}
		k.Redis.LPush(ctx, k.Identity()+"-signals", "TERM")
		<-k.Done()
		if k.Redis.SCard(ctx, "processes").Val() != 0 {
			t.Error("still in the list of processes")
		}
	})
}

// Two capsules on one queue: what the first puts back at the deadline must not be
// fetched by the second.
func TestTwoCapsulesOnOneQueueDuringAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Timeout: 2 * time.Second,
			Capsules: []actors.Capsule{{Name: "a", Concurrency: 2}, {Name: "b", Concurrency: 2}},
		})
		jids := push(k, 4, script.Hang())
		k.Await("four run", func() bool { return k.Stats().Busy == 4 })
		r := k.Stop()
		if len(r.Requeued) != 4 {
			t.Errorf("drain report: %s", r)
		}
		runs := s.Runs()
		for _, jid := range jids {
			if runs[jid] != 1 {
				t.Errorf("job %s was started %d times", jid, runs[jid])
			}
		}
		harness.Equal(t, "jobs in the queue", k.Redis.LLen(ctx, "queue:default").Val(), 4)
	})
}

// A Redis that refuses everything at the deadline: the stop still ends in time,
// and the report tells where the jobs are.
func TestStopWhileRedisIsAway(t *testing.T) {
	for name, factory := range fetchers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := script.New(t)
				mem := testkit.NewMemory(t)
				k := testkit.Start(t, actors.Config{
					Redis: mem.Client, Registry: s.Registry(),
					Capsules: []actors.Capsule{{Concurrency: 3, Fetch: factory}},
				})
				push(k, 2, script.Hang())
				push(k, 1, script.Slow(5*time.Second))
				k.Await("three run", func() bool { return k.Stats().Busy == 3 })
				mem.SetError("LOADING Redis is loading the dataset in memory")
				began := time.Now()
				r := k.Stop()
				if took := time.Since(began); took > 25*time.Second+stopPromise {
					t.Errorf("took %s", took)
				}
				mem.SetError("")
				if name == "reliable" {
					if len(r.Left) != 3 || len(r.Lost) != 0 {
						t.Errorf("drain report: %s", r)
					}
					harness.Equal(t, "units in progress", inProgress(t, k.Redis), 3)
				} else if len(r.Lost) != 2 {
					t.Errorf("drain report: %s", r)
				}
			})
		})
	}
}

func TestRedisAwayForAMinuteIsAStateNotACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		mem := testkit.NewMemory(t)
		var log harness.Buffer
		k := testkit.Start(t, actors.Config{
			Redis: mem.Client, Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 2}}, Logger: zerolog.New(&log),
		})
		ok := push(k, 1, script.Slow(5*time.Second))[0]
		push(k, 1, script.Slow(5*time.Second))
		k.Await("two run", func() bool { return k.Stats().Busy == 2 })
		mem.SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(time.Minute)
		if !k.Stats().RedisAway {
			t.Error("nobody noticed")
		}
		mem.SetError("")
		later := push(k, 1, script.OK())[0]
		k.Await("fetching again", func() bool { return s.Runs()[later] > 0 })
		k.Await("all settled", func() bool { return inProgress(t, k.Redis) == 0 && !k.Stats().RedisAway })
		runs := s.Runs()
		harness.Equal(t, "the job that ended during the outage ran times", runs[ok], 1)
		if begin, end, away := log.Count("redis refuses"), log.Count("redis serves again"), log.Count("redis is"); begin != 1 || end != 1 || away != 0 {
			t.Errorf("%d lines that Redis refuses, %d that it serves again, want one each, and none of %d that it is away:\n%s", begin, end, away, log.String())
		}
		for _, n := range k.Tree() {
			if n.Restarts != 0 {
				t.Errorf("%s restarted %d times: %s", n.Path, n.Restarts, n.LastFailure)
			}
		}
	})
}

func TestFencedProcessCancelsWhatWasTakenFromIt(t *testing.T) {
	s := script.New(t)
	causes := make(chan error, 9)
	s.OnCancel = func(ctx context.Context) { causes <- context.Cause(ctx) }
	rdb := testkit.Redis(t)
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: s.Registry(), Lease: 2 * time.Second, Capsules: []actors.Capsule{{Concurrency: 1}},
	})
	jid := push(k, 1, script.Hang())[0]
	k.Await("it runs", func() bool { return s.Runs()[jid] > 0 })
	rescuer := harness.Must(rescue.New(rescue.Config{Redis: rdb, Lease: 2 * time.Second}))(t)
	// what a rescuer sees of a process that was paused past its lease; a sign of
	// life may come in between, then it was not long enough
	k.Await("its job is taken from it", func() bool {
		for id := range rdb.HGetAll(ctx, "troupe:places").Val() {
			rdb.Del(ctx, "troupe:lease:"+id)
			rdb.ZAdd(ctx, "troupe:expiries", redis.Z{Score: 0, Member: id})
		}
		got, err := rescuer.Rescue(ctx)
		if err != nil {
			t.Fatalf("rescue: %+v, %v", got, err)
		}
		return got.Units == 1
	})
	k.Await("the second run", func() bool { return s.Runs()[jid] == 2 })
	if len(causes) != 1 || !errors.Is(<-causes, troupe.ErrFenced) {
		t.Error("one context was to be cancelled, with ErrFenced")
	}
	s.Release()
	k.Await("settled", func() bool { return inProgress(t, rdb) == 0 })
	if st := k.Stats(); st.Fencings == 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestRequeuedJobsKeepTheirOrder(t *testing.T) {
	for name, factory := range fetchers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := script.New(t)
				k := testkit.Start(t, actors.Config{
					Registry: s.Registry(), Timeout: time.Second,
					Capsules: []actors.Capsule{{Concurrency: 5, Fetch: factory}},
				})
				jids := push(k, 5, script.Hang())
				k.Await("five run", func() bool { return k.Stats().Busy == 5 })
				last := push(k, 1, script.Hang())[0]
				k.Stop()
				var got []string
				for _, raw := range k.Redis.LRange(ctx, "queue:default", 0, -1).Val() {
					p := harness.Must(troupe.ParsePayload([]byte(raw)))(t)
					got = append(got, p.JID())
				}
				slices.Reverse(got) // popped from the right
				if want := append(jids, last); !slices.Equal(got, want) {
					t.Errorf("popped next: %q\nwant         %q", got, want)
				}
			})
		})
	}
}
