package flight

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// The last records of all processes, the newest first, and no more of one than 100.
func TestLatest(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, now := t.Context(), time.Now()
	if all, err := Latest(ctx, rdb); err != nil || len(all) != 0 {
		t.Errorf("none: %v, %v", all, err)
	}
	var many []Record
	for i := range 150 {
		many = append(many, Record{At: now.Add(time.Duration(i-1000) * time.Second), Kind: fmt.Sprint(i)})
	}
	harness.OK(t, Write(ctx, rdb, "a", many))
	harness.OK(t, Write(ctx, rdb, "b", []Record{{At: now, Kind: "last"}, {At: now.Add(-time.Hour), Kind: "first"}}))
	rdb.RPush(ctx, keys.Flight("b"), "junk")
	all, err := Latest(ctx, rdb)
	if err != nil || len(all) != 102 {
		t.Fatalf("%d, %v", len(all), err)
	}
	if all[0].Kind != "last" || all[0].Process != "b" || all[1].Kind != "149" || all[100].Kind != "50" || all[101].Kind != "first" {
		t.Errorf("%v", all)
	}
}
