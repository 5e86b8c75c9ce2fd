package beat_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestNote(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, now := t.Context(), time.Unix(1795225100, 0)
	for i := range 120 { // q119 is the longest
		name := fmt.Sprint("q", i)
		rdb.SAdd(ctx, "queues", name)
		for range i {
			rdb.LPush(ctx, "queue:"+name, `{"class":"A","args":[],"enqueued_at":1795225040.5}`)
		}
	}
	rdb.SAdd(ctx, "queues", "wrong", "long")
	rdb.Set(ctx, "queue:wrong", 1, 0)
	for range 500 {
		rdb.LPush(ctx, "queue:long", `{"class":"A","args":["`+strings.Repeat("x", 100_000)+`"],"enqueued_at":1795225090000}`)
	}
	harness.OK(t, beat.NoteDepths(ctx, rdb, now))
	harness.OK(t, beat.NoteDepths(ctx, rdb, now.Add(time.Second)))
	all, err := beat.LastDepths(ctx, rdb, 10)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	s := all[0]
	if !s.At.Equal(now) || s.Jobs != 119*120/2+500 || len(s.Queues) != 100 {
		t.Errorf("%s %d %d", s.At, s.Jobs, len(s.Queues))
	}
	if s.Queues["q119"] != (beat.Depth{119, 59.5}) || s.Queues["long"] != (beat.Depth{500, 10}) || s.Queues["q1"] != (beat.Depth{}) {
		t.Errorf("%+v", s.Queues)
	}
	rdb.FlushDB(ctx)
	for i := range beat.DepthsKept + 5 {
		harness.OK(t, beat.NoteDepths(ctx, rdb, now.Add(time.Duration(i)*beat.DepthsEvery)))
	}
	if n, life := rdb.LLen(ctx, "troupe:depths").Val(), rdb.TTL(ctx, "troupe:depths").Val(); n != beat.DepthsKept || life < 23*time.Hour {
		t.Errorf("%d samples, for %s", n, life)
	}
	rdb.LPush(ctx, "troupe:depths", "x", "{}")
	if all, err := beat.LastDepths(ctx, rdb, 3); err != nil || len(all) != 1 {
		t.Error(all, err)
	}
}
