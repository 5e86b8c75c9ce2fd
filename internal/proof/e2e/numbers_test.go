package e2e

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Whatever the command pushes for later, Ruby puts off without a second member,
// which would be due at once.
func TestRubyReschedulesWhatTheCommandPushed(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	for _, args := range [][]string{
		{"1e3", "1.10", "-0", "--queue", "low"}, {`{"a":1, "b":2, "a":3}`}, {"--args", `[ 1e3, 1.10, -0, {"a":1,"a":[1E5]}, "\u003c\/" ]`},
		{"1e15", "1E-7", "--count", "3"},
	} {
		flags := []string{"push", "X", "--in", "10m"}
		if i := slices.Index(args, "-0"); i >= 0 { // not a flag
			flags, args = append(append(flags, args[i+1:]...), "--"), args[:i+1]
		}
		p := procs.Troupe(t, []string{"REDIS_URL=" + url}, append(flags, args...)...)
		if code := p.Exit(soon); code != 0 {
			t.Fatalf("troupe push %q: exit code %d: %s", args, code, p.Stderr())
		}
	}
	before := rdb.ZRangeWithScores(t.Context(), "schedule", 0, -1).Val()
	ruby(t, url, `Sidekiq::ScheduledSet.new.to_a.each { |e| e.reschedule(e.score + 600) }`, nil)
	after := rdb.ZRangeWithScores(t.Context(), "schedule", 0, -1).Val()
	if len(before) != 6 || len(after) != 6 {
		t.Fatalf("schedule had %d members, has %v", len(before), after)
	}
	for i, z := range after {
		if z.Member != before[i].Member || math.Abs(z.Score-before[i].Score-600) > 0.001 || z.Score < float64(time.Now().Unix()) {
			t.Errorf("%v became %v", before[i], z)
		}
	}

	p := procs.Troupe(t, []string{"REDIS_URL=" + url}, "push", "X", "1", `[2, -1e999]`)
	if code := p.Exit(soon); code != 1 || !strings.Contains(p.Stderr(), "[1]: number -1e999 at byte 4 is too large") {
		t.Errorf("a number that is no double: exit code %d: %s", code, p.Stderr())
	}
	if rdb.Exists(t.Context(), "queue:default").Val() != 0 {
		t.Error("a job with a number that is no double was pushed")
	}
}
