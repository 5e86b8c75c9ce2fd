package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
)

func TestStatsOfAnEmptyDatabaseAreZero(t *testing.T) {
	i, _, _ := start(t)
	if s := harness.Must(i.Stats(t.Context()))(t); s != (inspect.Stats{}) {
		t.Errorf("got %+v", s)
	}
	if days := harness.Must(i.History(t.Context(), 2, time.Time{}))(t); len(days) != 2 || days[0].Processed+days[1].Failed != 0 {
		t.Errorf("got %+v", days)
	}
}

func TestStatsSurviveKeysOfAnotherType(t *testing.T) {
	i, rdb, _ := start(t)
	harness.OK(t, rdb.Set(t.Context(), "retry", "x", 0).Err())
	harness.OK(t, rdb.Set(t.Context(), "stat:processed", "lots", 0).Err())
	harness.OK(t, rdb.Set(t.Context(), "queue:odd", "x", 0).Err())
	harness.OK(t, rdb.SAdd(t.Context(), "queues", "odd", "a").Err())
	push(t, rdb, "a", job(1, "a"))
	s := harness.Must(i.Stats(t.Context()))(t)
	if s.RetrySize != 0 || s.Processed != 0 || s.Enqueued != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestLatencyOfBothFormsOfTime(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration, form troupe.Timestamps) string {
		return string(scores.AppendTime(nil, now.Add(-d), form == troupe.TimestampsMillis))
	}
	for _, tt := range []struct {
		name, raw string
		want      time.Duration
	}{
		{"seconds", `{"enqueued_at":` + ago(90*time.Second, troupe.TimestampsFloat) + `}`, 90 * time.Second},
		{"milliseconds", `{"enqueued_at":` + ago(90*time.Second, troupe.TimestampsMillis) + `}`, 90 * time.Second},
		{"enqueued before created", `{"created_at":1.5,"enqueued_at":` + ago(time.Second, troupe.TimestampsFloat) + `}`, time.Second},
		{"created only", `{"created_at":` + ago(time.Hour, troupe.TimestampsMillis) + `}`, time.Hour},
		{"enqueued null", `{"enqueued_at":null,"created_at":` + ago(time.Hour, troupe.TimestampsFloat) + `}`, time.Hour},
		{"a date", `{"enqueued_at":"` + now.Add(-time.Minute).UTC().Format(time.RFC3339Nano) + `"}`, time.Minute},
		{"no time", `{}`, 0},
		{"no job", `{`, 0},
		{"no object", `[1]`, 0},
		{"empty", ``, 0},
		{"a clock ahead", `{"enqueued_at":` + ago(-time.Hour, troupe.TimestampsFloat) + `}`, -time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i, rdb, _ := start(t)
			push(t, rdb, "default", tt.raw, job(1, "default"))
			within := func(what string, got time.Duration) {
				if off := got - tt.want; off < -time.Millisecond || off > time.Minute/2 {
					t.Errorf("%s: got %v, want %v", what, got, tt.want)
				}
			}
			within("stats", harness.Must(i.Stats(t.Context()))(t).DefaultQueueLatency)
			within("queue", harness.Must(i.Queue("default").Summary(t.Context()))(t).Latency)
			within("summary", harness.Must(i.Queues(t.Context()))(t)[0].Latency)
			jobs, _, err := i.Queue("default").Page(t.Context(), 1, 1)
			harness.OK(t, err)
			within("record", jobs[0].Summary().Latency)
		})
	}
}

func TestHistoryRefusesDaysThatRedisForgets(t *testing.T) {
	i, _, _ := start(t)
	for _, days := range []int{0, -1, 1825 + 1} {
		if _, err := i.History(t.Context(), days, time.Time{}); err == nil {
			t.Errorf("%d days: no error", days)
		}
	}
	if days := harness.Must(i.History(t.Context(), 1825, time.Time{}))(t); len(days) != 1825 {
		t.Errorf("got %d days", len(days))
	}
}

func TestHistoryIsInUTC(t *testing.T) {
	i, rdb, _ := start(t)
	harness.OK(t, rdb.MSet(t.Context(), "stat:processed:2026-03-01", 5, "stat:failed:2026-02-28", 2).Err())
	west := time.FixedZone("west", -8*3600)
	got := harness.Must(i.History(t.Context(), 3, time.Date(2026, 2, 28, 20, 0, 0, 0, west)))(t) // March in UTC
	want := "[{2026-03-01 00:00:00 +0000 UTC 5 0} {2026-02-28 00:00:00 +0000 UTC 0 2} {2026-02-27 00:00:00 +0000 UTC 0 0}]"
	if fmt.Sprint(got) != want {
		t.Errorf("\n got %v\nwant %s", got, want)
	}
}

func TestResetStats(t *testing.T) {
	i, rdb, _ := start(t)
	seed := func() {
		harness.OK(t, rdb.MSet(t.Context(), "stat:processed", 5, "stat:failed", 2, "stat:failed:2026-02-28", 2).Err())
	}
	for _, tt := range []struct {
		which             []string
		processed, failed int64
	}{
		{nil, 0, 0}, {[]string{"failed"}, 5, 0}, {[]string{"processed"}, 0, 2},
	} {
		seed()
		harness.OK(t, i.ResetStats(t.Context(), tt.which...))
		s := harness.Must(i.Stats(t.Context()))(t)
		if s.Processed != tt.processed || s.Failed != tt.failed || rdb.Get(t.Context(), "stat:failed:2026-02-28").Val() != "2" {
			t.Errorf("%v: got %+v", tt.which, s)
		}
	}
	seed()
	if err := i.ResetStats(t.Context(), "failed", "retries"); err == nil || harness.Must(i.Stats(t.Context()))(t).Failed != 2 {
		t.Errorf("a stat that does not exist: %v", err)
	}
}

func TestErrorsNameWhatFailed(t *testing.T) {
	i, rdb, _ := start(t)
	harness.OK(t, rdb.Close())
	ctx := t.Context()
	set := i.RetrySet
	for name, err := range map[string]error{
		"read stats":       second(i.Stats(ctx)),
		"read history":     second(i.History(ctx, 1, time.Time{})),
		"reset stats":      i.ResetStats(ctx),
		"list queues":      second(i.Queues(ctx)),
		"queue a: summary": second(i.Queue("a").Summary(ctx)),
		"queue a: page":    third(i.Queue("a").Page(ctx, 0, 1)),
		"set retry: walk":  second(set.Lookup(ctx, "1-x")),
		"set retry: scan":  second(set.FindJob(ctx, "x")),
		"kill all":         second(set.KillAll(ctx, inspect.Bulk{})),
		"processes":        second(i.Processes(ctx)),
		"running jobs":     second(i.Works(ctx)),
		"fetchers":         second(i.Fetchers(ctx)),
		"tree":             second(i.Tree(ctx, "x")),
	} {
		if err == nil || !contains(err.Error(), name) {
			t.Errorf("want %q in: %v", name, err)
		}
	}
}

func TestACancelledContextEndsWalks(t *testing.T) {
	i, rdb, _ := start(t)
	for n := range 200 {
		add(t, rdb, "retry", float64(n), failed(n, "a", 0))
		push(t, rdb, "a", job(n, "a"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, end := 0, error(nil)
	for _, err := range i.RetrySet.Each(ctx) {
		if n++; n == 10 {
			cancel()
		}
		end = err
	}
	if !errors.Is(end, context.Canceled) || n > 60 {
		t.Errorf("%d entries, then %v", n, end)
	}
	for _, err := range i.Queue("a").Each(ctx) {
		end = err
	}
	if !errors.Is(end, context.Canceled) {
		t.Errorf("queue: %v", end)
	}
}
