package testkit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/redistest"
)

// Census is where each job of a Redis is, by jid: "queue:NAME", "schedule",
// "retry", "dead", "in progress", or "unnamed KEY" for a list of jobs in progress that
// no fetcher's place names, so that nobody would ever find it. A job that stands
// somewhere twice is listed twice. What has no jid is listed under "".
type Census map[string][]string

// TakeCensus looks at every queue, set and list in progress. It is exact while
// nobody moves jobs.
func TakeCensus(tb testing.TB, rdb redis.UniversalClient) Census {
	tb.Helper()
	ctx := context.Background()
	c := Census{}
	queues, err := rdb.SMembers(ctx, "queues").Result()
	if err != nil {
		tb.Fatalf("census: queues: %v", err)
	}
	for _, q := range queues {
		jobs, err := rdb.LRange(ctx, "queue:"+q, 0, -1).Result()
		if err != nil {
			tb.Fatalf("census: queue %s: %v", q, err)
		}
		c.add("queue:"+q, jobs)
	}
	for _, set := range []string{"schedule", "retry", "dead"} {
		jobs, err := rdb.ZRange(ctx, set, 0, -1).Result()
		if err != nil {
			tb.Fatalf("census: %s: %v", set, err)
		}
		c.add(set, jobs)
	}
	named := map[string]bool{}
	for claim, err := range inspect.New(rdb).Claims(ctx) {
		if err != nil {
			tb.Fatalf("census: %v", err)
		}
		named[claim.Key] = true
	}
	lists, err := redistest.InProgress(ctx, rdb)
	if err != nil {
		tb.Fatalf("census: jobs in progress: %v", err)
	}
	for key, jobs := range lists {
		if named[key] {
			c.add("in progress", jobs)
		} else {
			c.add(unnamed+key, jobs)
		}
	}
	return c
}

const unnamed = "unnamed "

func (c Census) add(place string, jobs []string) {
	for _, job := range jobs {
		jid := ""
		if p, err := troupe.ParsePayload([]byte(job)); err == nil {
			jid = p.JID()
		}
		c[jid] = append(c[jid], place)
	}
}

// Recorder counts how often each job has begun and ended well, in Redis, so that
// several processes can share it and a kill loses nothing of it. Use its
// Middleware in each of them, and read it anywhere. A run is noted before the
// handler is called; its success before the job is acked.
type Recorder struct {
	rdb redis.UniversalClient
	key string
}

// NewRecorder keeps its counts in two hashes beginning with key. rdb is best
// another database than the jobs', and not the faulty way to it.
func NewRecorder(rdb redis.UniversalClient, key string) *Recorder { return &Recorder{rdb, key} }

// Middleware notes the runs of jobs. What it cannot note fails the job, before
// the handler or after it.
func (r *Recorder) Middleware(next troupe.Handler) troupe.Handler {
	return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		if err := r.rdb.HIncrBy(context.WithoutCancel(ctx), r.key+":runs", p.JID(), 1).Err(); err != nil {
			return fmt.Errorf("note the run: %w", err)
		}
		if err := next.Perform(ctx, p); err != nil {
			return err
		}
		if err := r.rdb.HIncrBy(context.WithoutCancel(ctx), r.key+":done", p.JID(), 1).Err(); err != nil {
			return fmt.Errorf("note the success: %w", err)
		}
		return nil
	})
}

// Runs is how often each job has begun, by jid.
func (r *Recorder) Runs(tb testing.TB) map[string]int { tb.Helper(); return r.read(tb, "runs") }

// Done is how often each job has ended well, by jid.
func (r *Recorder) Done(tb testing.TB) map[string]int { tb.Helper(); return r.read(tb, "done") }

func (r *Recorder) read(tb testing.TB, part string) map[string]int {
	tb.Helper()
	texts, err := r.rdb.HGetAll(context.Background(), r.key+":"+part).Result()
	if err != nil {
		tb.Fatalf("recorder: %v", err)
	}
	counts := make(map[string]int, len(texts))
	for jid, text := range texts {
		if counts[jid], err = strconv.Atoi(text); err != nil {
			tb.Fatalf("recorder: %s of job %s: %v", part, jid, err)
		}
	}
	return counts
}

// RequireNothingLost fails the test unless each of the pushed jobs has ended
// well (done counts it) or stands in Redis, exactly once; never both, but for
// those that rerun allows: a job that was requeued or rescued while it ran may
// have ended as well. rerun may be nil.
func RequireNothingLost(tb testing.TB, c Census, pushed []string, done map[string]int, rerun func(jid string) bool) {
	tb.Helper()
	var lost, double, both []string
	for _, jid := range pushed {
		places := c[jid]
		switch {
		case len(places) == 0 && done[jid] == 0:
			lost = append(lost, jid)
		case done[jid] == 0 && !slices.ContainsFunc(places, func(p string) bool { return !strings.HasPrefix(p, unnamed) }):
			lost = append(lost, jid+" in "+strings.Join(places, " and "))
		case len(places) > 1:
			double = append(double, fmt.Sprintf("%s in %s", jid, strings.Join(places, " and ")))
		case len(places) == 1 && done[jid] > 0 && (rerun == nil || !rerun(jid)):
			both = append(both, fmt.Sprintf("%s in %s", jid, places[0]))
		}
	}
	for _, fault := range []struct {
		what string
		jobs []string
	}{{"lost: neither done nor to be found in Redis", lost}, {"in Redis twice", double}, {"done, and still in Redis", both}} {
		if len(fault.jobs) > 0 {
			tb.Errorf("%d of %d jobs %s:\n  %s", len(fault.jobs), len(pushed), fault.what,
				strings.Join(fault.jobs[:min(len(fault.jobs), 20)], "\n  "))
		}
	}
}

// RequireAtMostRuns fails the test if a job has begun more than n times.
func RequireAtMostRuns(tb testing.TB, runs map[string]int, n int) {
	tb.Helper()
	for _, jid := range slices.Sorted(maps.Keys(runs)) {
		if runs[jid] > n {
			tb.Errorf("job %s has run %d times, at most %d were expected", jid, runs[jid], n)
		}
	}
}

// RequireHealthy fails the test unless every actor runs, within a
// minute: none crashed, restarting, held or missing.
func (k *Kit) RequireHealthy() {
	k.tb.Helper()
	k.AwaitTree("a healthy tree", func(tree actors.Tree) bool {
		for _, a := range tree {
			switch a.State {
			case actors.StateRunning, actors.StateIdle, actors.StateBusy:
			default:
				return false
			}
		}
		return len(tree) > 0 && k.Err() == nil
	})
}

// RequireStopWithin stops the daemon and fails the test if that takes longer than
// d, or if the report has jobs that are left or lost. It returns the report.
func (k *Kit) RequireStopWithin(d time.Duration) actors.DrainReport {
	k.tb.Helper()
	began := time.Now()
	r := k.Stop()
	if took := time.Since(began); took > d {
		k.tb.Errorf("the stop took %s, at most %s was expected", took, d)
	}
	if len(r.Left)+len(r.Lost) > 0 {
		k.tb.Errorf("the stop has left jobs unsettled: %s", r)
	}
	return r
}

// CrashWhen crashes the actor at path with reason when an event passes f: once,
// as often as f says with Times. It is asynchronous, as events are; to crash an
// actor at one of its commands to Redis see Call.
func (k *Kit) CrashWhen(path string, f Filter, reason error) {
	k.tb.Helper()
	left := max(f.max, 1)
	k.tb.Cleanup(k.Subscribe(func(e actors.Event) {
		if left > 0 && f.match(e) {
			left--
			k.Allow(Crashes(path).Times(1))
			_ = k.Daemon.Crash(path, reason) // it may be gone
		}
	}))
}
