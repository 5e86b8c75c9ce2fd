package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
)

// Recorder counts how often each job has begun and ended well. Its counts are in
// Redis, so that several processes share them and a kill loses none. Use its
// Middleware in each process, and read it anywhere. A run is noted before the
// handler is called, its success before the job is acked.
type Recorder struct {
	rdb redis.UniversalClient
	key string
}

// NewRecorder keeps its counts in two hashes beginning with key. rdb is best
// another database than the jobs', and not behind the proxy.
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

// RequireNothingLost fails the test unless each of the pushed jobs has ended well
// (done counts it) or is in Redis, exactly once. A job that was requeued or rescued
// while it ran may be both: for those rerun, which may be nil, returns true.
func RequireNothingLost(tb testing.TB, in Inventory, pushed []string, done map[string]int, rerun func(jid string) bool) {
	tb.Helper()
	var lost, double, both []string
	for _, jid := range pushed {
		places := in[jid]
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
