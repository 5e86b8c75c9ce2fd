package main

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// jobs hold the contents of sets and queues: by key, with scores or in order.
func jobsOf(t *rapid.T, rdb *redis.Client) map[string]string {
	all := map[string]string{}
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		switch {
		case key == "queues":
			all[key] = fmt.Sprint(slices.Sorted(slices.Values(rdb.SMembers(t.Context(), key).Val())))
		case strings.HasPrefix(key, "queue:"):
			all[key] = fmt.Sprintf("%q", rdb.LRange(t.Context(), key, 0, -1).Val())
		default:
			for _, z := range rdb.ZRangeWithScores(t.Context(), key, 0, -1).Val() {
				all[key] += fmt.Sprintf("%v %q\n", z.Score+0, z.Member) // Redis keeps the sign of -0 in large sets only
			}
		}
	}
	return all
}

// Whatever is in sets and queues, an export brings it back to the byte, to the bit of a score, and in
// order; and a second import changes nothing.
func TestExportsGoBack(t *testing.T) {
	t.Parallel()
	from, fromURL := redistest.New(t)
	to, toURL := redistest.New(t)
	file := filepath.Join(t.TempDir(), "export")
	raw := rapid.OneOf(
		rapid.StringMatching(`\{"class":"[A-Z]","args":\[[0-9]{1,30}\],"jid":"[a-f]{4}"\}`),
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 20), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{"", "\xff", "\r\n", "null", "[1]", "\u2028\u009b\u202e", "{\"args\":[\"\x00\"]}"}),
	)
	score := rapid.OneOf(rapid.Float64Range(1.7e9, 1.9e9), rapid.Float64().Filter(func(f float64) bool { return !math.IsNaN(f) }), rapid.SampledFrom([]float64{math.Inf(1), math.Inf(-1), 0}))
	queue := rapid.OneOf(rapid.StringMatching(`[a-z]{1,3}`), rapid.SampledFrom([]string{"a b", "é", "x\ny", "retry", "s.suspects", "\x1b[31m"}))
	rapid.Check(t, func(t *rapid.T) {
		for _, rdb := range []*redis.Client{from, to} {
			harness.OK(t, rdb.FlushDB(t.Context()).Err())
		}
		var places []string
		for _, set := range [][2]string{{"retry", "retry"}, {"scheduled", "schedule"}, {"dead", "dead"}} {
			name, key := set[0], set[1]
			for range rapid.IntRange(0, 60).Draw(t, key) {
				harness.OK(t, from.Do(t.Context(), "zadd", key, score.Draw(t, "score"), raw.Draw(t, "entry")).Err())
			}
			places = append(places, name)
		}
		for range rapid.IntRange(0, 3).Draw(t, "queues") {
			name := queue.Draw(t, "queue")
			for range rapid.IntRange(1, 70).Draw(t, "jobs") {
				from.SAdd(t.Context(), "queues", name)
				harness.OK(t, from.LPush(t.Context(), "queue:"+name, raw.Draw(t, "job")).Err())
			}
			places = append(places, "queue:"+name)
		}
		want := jobsOf(t, from)
		slices.Sort(places)
		for _, place := range slices.Compact(places) {
			got := call(t.Context(), "jobs", "export", place, "--args", "show", "--redis", fromURL)
			if got.out == "" {
				continue // none
			}
			if err := os.WriteFile(file, []byte(got.out), 0o600); got.code != 0 || err != nil {
				t.Fatalf("export of %q: %s %v", place, got, err)
			}
			if got := call(t.Context(), "jobs", "import", file, "--yes", "--rate", "0", "--redis", toURL); got.code != 0 || strings.Contains(got.out, " 0 done") {
				t.Fatalf("import of %q: %s", place, got)
			}
			if got := call(t.Context(), "jobs", "import", file, "--yes", "--rate", "0", "--redis", toURL); got.code != 0 || !strings.Contains(got.out, " 0 done") {
				t.Fatalf("a second import of %q: %s", place, got)
			}
		}
		if got := jobsOf(t, to); !maps.Equal(got, want) {
			t.Fatalf("came back as\n%v\nexpected\n%v", got, want)
		}
	})
}

func TestALineThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	_, url := redistest.New(t)
	file := filepath.Join(t.TempDir(), "export")
	harness.OK(t, os.WriteFile(file, []byte("{\"queue\":\"a\",\"job\":\"\xff\"}"), 0o600))
	if got := call(t.Context(), "jobs", "import", file, "--redis", url); got.code != 1 || !strings.Contains(got.err, "line 1: got ") || !strings.Contains(got.err, "not UTF-8") {
		t.Error(got)
	}
}
