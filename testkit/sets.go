package testkit

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/words"
)

// RequireScheduled waits, for at most 10 s, until exactly one job of A's class whose
// args fulfil all of match is in the scheduled set, and returns it: At is when it is
// due. A failure shows the jobs that are in Redis instead.
func RequireScheduled[A troupe.Args](tb testing.TB, rdb redis.UniversalClient, match ...func(A) bool) *Job[A] {
	tb.Helper()
	return requireIn(tb, rdb, keys.Schedule, match)
}

// RequireRetried is RequireScheduled for the retry set: the job has failed, and At is
// when it runs again.
func RequireRetried[A troupe.Args](tb testing.TB, rdb redis.UniversalClient, match ...func(A) bool) *Job[A] {
	tb.Helper()
	return requireIn(tb, rdb, keys.Retry, match)
}

// RequireDead is RequireScheduled for the dead set: the job will not run again, and At
// is when it died.
func RequireDead[A troupe.Args](tb testing.TB, rdb redis.UniversalClient, match ...func(A) bool) *Job[A] {
	tb.Helper()
	return requireIn(tb, rdb, keys.Dead, match)
}

func requireIn[A troupe.Args](tb testing.TB, rdb redis.UniversalClient, set string, match []func(A) bool) *Job[A] {
	tb.Helper()
	class := classOf[A]()
	var fits []*Job[A]
	harness.Within(expectTime, func() bool {
		fits = fitting(tb, inSet(tb, rdb, set), class, match)
		return len(fits) == 1
	})
	if len(fits) != 1 {
		tb.Fatalf("expected one job of %s that fits in the set %q, got %d\n%s", class, set, len(fits), contents(tb, rdb, class))
	}
	return fits[0]
}

// inSet reads the jobs of a set. What is no job is left out.
func inSet(tb testing.TB, rdb redis.UniversalClient, set string) (jobs []Pushed) {
	tb.Helper()
	members, err := rdb.ZRangeWithScores(context.WithoutCancel(tb.Context()), set, 0, -1).Result()
	if err != nil {
		tb.Fatalf("set %q: %v", set, err)
	}
	for _, m := range members {
		text, _ := m.Member.(string)
		if p, err := troupe.ParsePayload([]byte(text)); err == nil {
			jobs = append(jobs, Pushed{Payload: p, At: time.UnixMicro(int64(m.Score * 1e6))})
		}
	}
	return jobs
}

// contents shows the jobs of class in the queues and sets, and how many others are
// there.
func contents(tb testing.TB, rdb redis.UniversalClient, class string) string {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	var b strings.Builder
	show := func(place string, jobs []Pushed) {
		others := 0
		for _, j := range jobs {
			if j.Class() != class {
				others++
				continue
			}
			fmt.Fprintf(&b, "  %s: %s args %s", place, j.JID(), bytes.TrimSpace(j.Args()))
			if !j.At.IsZero() {
				fmt.Fprintf(&b, " at %s", j.At.Format(time.RFC3339))
			}
			if text, _ := j.String("error_message"); text != "" {
				fmt.Fprintf(&b, " failed %d times: %s", j.Failures(), words.FirstLine(text, words.MaxHead))
			}
			b.WriteByte('\n')
		}
		if others > 0 {
			fmt.Fprintf(&b, "  %s: %d of other classes\n", place, others)
		}
	}
	queues, err := rdb.SMembers(ctx, keys.Queues).Result()
	if err != nil {
		return err.Error()
	}
	for _, q := range queues {
		raws, err := rdb.LRange(ctx, keys.Queue(q), 0, -1).Result()
		if err != nil {
			return err.Error()
		}
		var jobs []Pushed
		for _, raw := range raws {
			if p, err := troupe.ParsePayload([]byte(raw)); err == nil {
				jobs = append(jobs, Pushed{Payload: p})
			}
		}
		show("queue "+q, jobs)
	}
	for _, set := range []string{keys.Schedule, keys.Retry, keys.Dead} {
		show(set, inSet(tb, rdb, set))
	}
	if b.Len() == 0 {
		return "no job is in a queue, scheduled, to be retried or dead"
	}
	return fmt.Sprintf("in Redis, of %s:\n%s", class, &b)
}
