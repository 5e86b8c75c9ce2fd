package conformance

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/testkit"
)

// metricsOf is what a Metrics page shows of a class.
type metricsOf struct {
	P, F, MS  int
	Histogram []int
}

// metricsPage asks Ruby what the page of version 7 or 8 would show at a time, by
// the query in testdata/metrics.rb.
func (s *site) metricsPage(version int, at time.Time, call string) (page map[string]metricsOf) {
	s.t.Helper()
	s.ruby(fmt.Sprintf(`Sidekiq.redis { |r| MetricsPage.new(r, %d, %d).%s }`, version, at.Unix(), call), &page)
	return page
}

func (s *site) metricsOf(version int, at time.Time, class string) (m metricsOf) {
	s.t.Helper()
	s.ruby(fmt.Sprintf(`Sidekiq.redis { |r| MetricsPage.new(r, %d, %d).job(args[0]) }`, version, at.Unix()), &m, class)
	return m
}

// bucketOf is the index of the histogram for a run of so many ms: that of the
// first limit above it.
func bucketOf(ms int) int {
	return sort.SearchInts([]int{
		20, 30, 45, 65, 100, 150, 225, 335, 500, 750, 1100, 1700, 2500, 3800, 5750, 8500, 13_000,
		20_000, 30_000, 45_000, 65_000, 100_000, 150_000, 225_000, 335_000,
	}, ms+1)
}

func TestCheck33TheMetricsQueryOf7And8ShowsWhatGoRan(t *testing.T) {
	s := newSite(t)
	needRuby(t)
	p := s.process(on(5, "default"))
	slow := s.push("SlowJob", `[]`)
	s.awaitRuns(1, slow)
	slept := time.Now()
	s.push("Record", `[]`)
	s.push("Fail", `[]`, with("retry", 0))
	s.push("Fail", `[]`, with("retry", 0))
	s.push("Boom", `[]`, with("retry", 0))
	s.push("NobodyKnows", `[]`)
	s.push("Sidekiq::ActiveJob::Wrapper", `[{}]`, with("wrapped", "Emails::WelcomeJob"))
	s.awaitSize("dead", 3)
	s.awaitSize("retry", 1)
	testkit.Await(t, "the slow job was slow", func() bool { return time.Since(slept) > 250*time.Millisecond })
	s.open(slow)
	s.awaitEmpty("default")
	p.Stop(soon) // the last flush is at the exit

	now := time.Now()
	runs := map[string]metricsOf{
		"SlowJob": {P: 1}, "Record": {P: 1}, "Emails::WelcomeJob": {P: 1}, "Fail": {P: 2, F: 2}, "Boom": {P: 1, F: 1},
	}
	for _, page := range []map[string]metricsOf{
		s.metricsPage(7, now, "classes"), s.metricsPage(8, now, "classes"), s.metricsPage(8, now, "classes_of_hours(1)"),
	} {
		if got, want := slices.Sorted(maps.Keys(page)), slices.Sorted(maps.Keys(runs)); !slices.Equal(got, want) {
			t.Errorf("the page has the classes %q, want %q", got, want)
		}
		for class, want := range runs {
			if got := page[class]; got.P != want.P || got.F != want.F || want.F > 0 && got.MS != 0 {
				t.Errorf("%s: %+v, want %+v", class, got, want)
			}
		}
		if ms := page["SlowJob"].MS; ms < 250 {
			t.Errorf("SlowJob took %d ms", ms)
		}
	}
	for _, version := range []int{7, 8} {
		for class, want := range runs {
			got := s.metricsOf(version, now, class)
			histogram := make([]int, 26)
			if want.F == 0 {
				histogram[bucketOf(got.MS)] = 1 // there was one run, so its time is the sum
			}
			if got.P != want.P || got.F != want.F || !slices.Equal(got.Histogram, histogram) {
				t.Errorf("page of %s in %d: %+v, want histogram %v", class, version, got, histogram)
			}
		}
	}
}

// A minute whose numbers have one digit each: what is padded shows. 7 and 8 find
// it there, and nowhere else.
func TestCheck33KeysFieldsAndBitsAreThoseOf7And8(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 59, 0, time.UTC)
	for version, dialect := range map[int]beat.Dialects{7: beat.Dialect7, 8: beat.Dialect8} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			s := newSite(t)
			m := beat.NewMetrics("vm:1:0123456789ab", dialect, func() map[string]runs.Totals { return nil })
			for _, ms := range []int{12, 250, 2499} {
				m.CountAs("Billing::Charge", job.Done, time.Duration(ms)*time.Millisecond)
			}
			m.CountAs("Billing::Charge", job.Error, time.Hour)
			m.CountAs("Broken", job.Error, time.Hour)
			s.must(m.Flush(t.Context(), s.rdb, at))

			want := golden(t, fmt.Sprintf("v%d_metrics.txt", version))
			if got := dump(t, s.rdb); got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
			histogram := make([]int, 26)
			histogram[0], histogram[7], histogram[12] = 1, 1, 1
			got := s.metricsOf(version, at, "Billing::Charge")
			if got.P != 4 || got.F != 1 || got.MS != 2761 || !slices.Equal(got.Histogram, histogram) {
				t.Errorf("the query shows %+v", got)
			}
			if page := s.metricsPage(version, at.Add(59*time.Minute), "classes"); page["Broken"].F != 1 {
				t.Errorf("59 minutes later: %+v", page)
			}
			if page := s.metricsPage(version, at.Add(time.Hour), "classes"); len(page) != 0 {
				t.Errorf("an hour later: %+v", page)
			}
		})
	}
}

// dump is every key but troupe's own with its TTL and content, a line each:
// hashes as JSON, strings in hex.
func dump(t *testing.T, rdb *redis.Client) string {
	t.Helper()
	ctx := t.Context()
	var lines []string
	for _, key := range rdb.Keys(ctx, "*").Val() {
		if strings.HasPrefix(key, "troupe:") {
			continue
		}
		var content any = hex.EncodeToString([]byte(rdb.Get(ctx, key).Val()))
		if rdb.Type(ctx, key).Val() == "hash" {
			content = rdb.HGetAll(ctx, key).Val()
		}
		text, err := job.EncodeJSON(content)
		if err != nil {
			t.Fatal(err)
		}
		ttl := rdb.TTL(ctx, key).Val().Round(time.Minute) // some of it may have passed
		lines = append(lines, fmt.Sprintf("%s %d %s", key, int(ttl.Seconds()), text))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
