package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// farBytes of one reply come within the time-out of a far link.
const farBytes = 300 << 10

// unbounded lets a Take bring what is too much for its link.
func unbounded(env Env) Env {
	env.Bytes = 1 << 30
	return env
}

// bigJobs pushes n jobs of this size, each with its number in front.
func bigJobs(t *testing.T, rdb redis.Cmdable, queue string, n, size int) (jobs []string) {
	t.Helper()
	for i := range n {
		job := fmt.Sprint(i, " ", strings.Repeat("x", size))
		jobs = append(jobs, job)
		harness.OK(t, rdb.LPush(t.Context(), keys.Queue(queue), job).Err())
	}
	return jobs
}

// drained takes and acks until nothing comes any more, as a process does whose Take may
// fail, and returns what came.
func drained(t *testing.T, f Fetcher, n int) (got []string, failed int) {
	t.Helper()
	var acks []Unit
	for idle := 0; idle < 2; {
		units, err := f.Take(t.Context(), n, acks)
		if err != nil {
			if failed++; failed == 200 {
				t.Fatalf("the fetcher is stuck behind %d jobs: %v", len(got), err)
			}
			continue
		}
		if acks = units; len(units) == 0 {
			idle++
		}
		got = append(got, payloads(units)...)
	}
	return got, failed
}

// What a call took that is more than the link brings within one time-out comes in pieces,
// whatever the size of the jobs.
func TestAReplyThatIsTooLargeGetsThrough(t *testing.T) {
	for name, c := range map[string]struct{ n, size int }{
		"small jobs":              {1000, 10 << 10},
		"two fit into a reply":    {30, farBytes * 2 / 5},
		"one fits into a reply":   {10, farBytes * 2 / 3},
		"hardly one fits":         {5, farBytes - 2000},
		"a single one, and large": {1, farBytes - 2000},
	} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := redistest.New(t)
			f := mustOpen(t, unbounded(testEnv(farClient(t, rdb, farBytes), Strict{"b", "a"})))
			jobs := bigJobs(t, rdb, "a", c.n, c.size)
			rdb.LPush(t.Context(), "queue:b", "b0")
			got, failed := drained(t, f, maxTake)
			if failed == 0 && c.n > 1 {
				t.Error("the first Take was to fail")
			}
			if want := append([]string{"b0"}, jobs...); !slices.Equal(got, want) {
				t.Errorf("took %d units, expected %d in their order: %.4q", len(got), len(want), got)
			}
			noClaims(t, rdb)
			t.Logf("%d failed calls", failed)
		})
	}
}

func TestAReplyThatIsTooLargeGetsThroughOnACluster(t *testing.T) {
	rdb, cluster := redistest.NewCluster(t)
	o := *rdb.Options()
	o.Addrs, o.Dialer, o.MaxRedirects = cluster.Addrs(), farDialer(farBytes), -1
	far := redis.NewClusterClient(&o)
	defer func() { _ = far.Close() }()
	f, err := NewReliable(unbounded(testEnv(far, Strict{"a", "b"})))
	if err == nil {
		err = f.Open(t.Context())
	}
	harness.OK(t, err)
	jobs := bigJobs(t, rdb, "a", 30, farBytes*2/5)
	rdb.LPush(t.Context(), keys.Queue("b"), "b0")
	got, _ := drained(t, f, maxTake)
	want := append(slices.Clone(jobs), "b0")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("took %d units, expected each of %d", len(got), len(want))
	}
	if left, err := f.Close(t.Context()); left != 0 || err != nil {
		t.Errorf("close: %d left, %v", left, err)
	}
}

// A job that the link cannot carry at all wedges nobody: it goes back to its queue twice,
// and dies unread. Beside it all others run.
func TestAJobLargerThanTheLink(t *testing.T) {
	for name, take := range map[string]bool{"taken": true, "moved by a wait": false} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := redistest.New(t)
			ctx := t.Context()
			env := unbounded(testEnv(farClient(t, rdb, farBytes), Strict{"a"}))
			f := mustOpen(t, env)
			huge := strings.Repeat("huge", farBytes)
			if take {
				rdb.LPush(ctx, "queue:a", "0", "1", huge, "2")
			}
			var got []string
			var acks []Unit
			harness.Await(t, "all has ended", func() bool {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				units, err := f.Take(ctx, 10, acks)
				if err == nil {
					acks, got = units, append(got, payloads(units)...)
				}
				if len(units) == 0 && !take {
					if len(got) == 0 && rdb.ZCard(ctx, keys.Dead).Val() == 0 && rdb.LLen(ctx, "queue:a").Val() == 0 {
						time.AfterFunc(20*time.Millisecond, func() { rdb.LPush(context.Background(), "queue:a", "0", "1", huge, "2") })
						take = false
					}
					_ = f.Wait(ctx, 50*time.Millisecond)
				}
				return len(got) >= 3 && rdb.ZCard(ctx, keys.Dead).Val() == 1 && len(acks) == 0
			})
			slices.Sort(got)
			if !slices.Equal(slices.Compact(got), []string{"0", "1", "2"}) {
				t.Errorf("ran %.9q", got)
			}
			if dead := rdb.ZRange(ctx, keys.Dead, 0, -1).Val(); !slices.Equal(dead, []string{huge}) {
				t.Errorf("%d dead, expected the job that is too large", len(dead))
			}
			if left, err := f.Close(ctx); left != 0 || err != nil {
				t.Errorf("close: %d, %v", left, err)
			}
			noClaims(t, rdb)
		})
	}
}

// A rescuer puts back what its link cannot carry, with a policy and without one; what it
// can read is decided.
func TestARescuerBehindASlowLink(t *testing.T) {
	for name, policy := range map[string]bool{"without a policy": false, "with a policy": true} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := redistest.New(t)
			ctx := t.Context()
			var all []string
			for _, identity := range []string{"h:2:bb", "h:3:cc"} {
				env := unbounded(testEnv(rdb, Strict{"a", "b"}))
				env.Identity = identity
				f := mustOpen(t, env)
				jobs := bigJobs(t, rdb, "a", 100, 100<<10)
				rdb.LPush(ctx, "queue:b", "b0", strings.Repeat("huge", farBytes), "b1")
				all = append(all, jobs...)
				if n := len(mustTake(t, f, maxTake)); n != 103 {
					t.Fatalf("took %d", n)
				}
				expire(t, rdb, f.cur.id)
			}
			decided := map[string]int{}
			r := testRescuer(t, farClient(t, rdb, farBytes), func(c *rescue.Config) {
				if policy {
					c.Policy = policyFunc(func(o rescue.Orphan) rescue.Decision { decided[string(o.Payload)]++; return rescue.Decision{} })
				}
			})
			failed := 0
			for range 100 {
				if _, err := r.Rescue(ctx); err == nil {
					break
				}
				failed++
			}
			if failed > 20 {
				t.Errorf("the rescuer failed %d times", failed)
			}
			got := queued(t, rdb, "a")
			slices.Sort(got)
			slices.Sort(all)
			if !slices.Equal(got, all) {
				t.Errorf("%d jobs are in the queue, expected %d", len(got), len(all))
			}
			harness.Equal(t, "jobs are in the queue of the large ones", rdb.LLen(ctx, "queue:b").Val(), 6)
			for _, job := range all {
				if policy && decided[job] == 0 {
					t.Fatalf("job %.10q was not decided", job)
				}
			}
			noClaims(t, rdb)
		})
	}
}

// A process dies while it reads piece by piece: the rescuer has all.
func TestDeathBetweenTwoPieces(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, unbounded(testEnv(farClient(t, rdb, farBytes), Strict{"a"})))
	jobs := bigJobs(t, rdb, "a", 100, 10<<10)
	for range 2 { // the take, and a first piece
		if _, err := f.Take(t.Context(), maxTake, nil); err == nil {
			t.Fatal("a take that was to fail")
		}
	}
	f.mu.Lock()
	f.waits++ // a dead process does not give back what it has in hand
	f.mu.Unlock()
	harness.Await(t, "it gives nothing back", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return !f.ending
	})
	expire(t, rdb, f.cur.id)
	mustRescue(t, testRescuer(t, rdb).Rescue)
	if got := queued(t, rdb, "a"); !slices.Equal(got, jobs) {
		t.Errorf("%d jobs are in the queue, expected %d in their order", len(got), len(jobs))
	}
	if err := f.Renew(t.Context()); !errors.As(err, new(*FencedError)) {
		t.Errorf("renew: %v, expected a fence", err)
	}
	if got, _ := drained(t, f, maxTake); !slices.Equal(got, jobs) {
		t.Errorf("then it took %d units", len(got))
	}
}

// 64 MB in one job go the whole way: taken, moved, rescued; 8 MB with the race detector.
func TestAJobOf64MB(t *testing.T) {
	rdb, _ := redistest.New(t)
	opt := *rdb.Options()
	opt.ReadTimeout, opt.WriteTimeout = time.Minute, time.Minute // a busy machine takes its time
	rdb = redis.NewClient(&opt)
	t.Cleanup(func() { _ = rdb.Close() })
	ctx := t.Context()
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	large := strings.Repeat("0123456789abcdef", harness.Effort(1<<19, 4<<20))
	rdb.LPush(ctx, "queue:a", "0", large, "2")
	units := mustTake(t, f, 10)
	if len(units) != 2 || string(units[1].Payload) != large {
		t.Fatalf("took %d units", len(units))
	}
	settleAll(t, f, Move{Unit: units[1], To: ToQueue}, Move{Unit: units[0], To: ToQueue})
	units = mustTake(t, f, 10)
	expire(t, rdb, f.cur.id)
	if done := mustRescue(t, testRescuer(t, rdb).Rescue); done.Units != len(units) {
		t.Errorf("rescued %d of %d", done.Units, len(units))
	}
	if got := queued(t, rdb, "a"); len(got) != 3 || got[0]+got[1] != large+"0" && got[0]+got[1] != "0"+large || got[2] != "2" {
		t.Errorf("%d jobs are back: %.9q", len(got), got)
	}
}
