package inspect_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// What a breaker allows, and which of its rules rest or have failed, is told; also of those that hold nothing.
func TestBreakersOfLimits(t *testing.T) {
	rdb := testkit.NewMemory(t).Client
	ctx := t.Context()
	rdb.HSet(ctx, "troupe:limits", "api", "1000 0 breaker 3 90", "bank", "7 pinned 2 breaker 0 60", "plain", "1")
	rdb.HSet(ctx, "troupe:rest:api:a", "ends", "1795000000.250000", "~j1", "1795000000.250000")
	rdb.HSet(ctx, "troupe:rest:bank", "failures", "4")
	rdb.HSet(ctx, "troupe:rest:plain", "ends", "1795000000.250000") // has no breaker
	all, _, err := inspect.New(rdb).Limits(ctx)
	harness.OK(t, err)
	var got []string
	for _, l := range all {
		text := l.Name + ": " + l.Allows.String()
		for _, r := range l.Rules {
			text += fmt.Sprintf("; %s %d %d", r.ID, r.Rests.Unix(), r.Failures)
		}
		got = append(got, text)
	}
	none := (time.Time{}).Unix()
	harness.EqualList(t, "limits", got, []string{
		"api: any number, rests for 1m30s after 3 failures in a row; api:a 1795000000 0", fmt.Sprintf("bank: 7 at once, can rest; bank %d 4", none), "plain: 1 at once",
	})
	harness.OK(t, inspect.New(rdb).SetLimit(ctx, "api", all[1].Allows))
	harness.Equal(t, "set by hand", rdb.HGet(ctx, "troupe:limits", "api").Val(), "7 pinned 1000 0 breaker 3 90")
}
