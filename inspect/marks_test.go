package inspect

import (
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/redistest"
)

// Deploys are read from the hashes of their days as Sidekiq writes them; what is no mark is passed over.
func TestMarks(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 11, day, hour, minute, 0, 0, time.UTC) }
	rdb.HSet(ctx, "20261125-marks", "2026-11-25T23:59:00Z", "v1", "yesterday", "no time", "2026-11-25T00:00:00Z", "too early")
	rdb.HSet(ctx, "20261126-marks", "2026-11-26T00:07:00Z", "v2 <b>", "2026-11-26T12:00:00Z", "too late")
	rdb.Set(ctx, "20261124-marks", "no hash", 0)
	got, err := New(rdb).Marks(ctx, at(25, 1, 0), at(26, 11, 0))
	if err != nil || len(got) != 2 || got[0] != (Mark{at(25, 23, 59), "v1"}) || got[1] != (Mark{at(26, 0, 7), "v2 <b>"}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := New(rdb).Marks(ctx, at(1, 0, 0).AddDate(-5, 0, 0), at(26, 11, 0)); err != nil || len(got) != 3 {
		t.Errorf("of five years: %v, %v", got, err)
	}
}
