package fetch

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Dead owners of a layout that this version does not know, more than one look lists and the first
// ones in the expiries, hold up nobody. What they have is left alone, the expiries too: a rescuer of their
// version looks at it.
func TestOwnersOfAnUnknownLayoutHoldUpNobody(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	for i := range rescue.LookLimit + 5 {
		id := fmt.Sprintf("new:%d:x#default.1", i)
		rdb.HSet(ctx, "troupe:places", id, `{"v":3,"queues":["a"]}`)
		rdb.ZAdd(ctx, "troupe:expiries", redis.Z{Score: 1, Member: id})
	}
	r := testRescuer(t, rdb)
	r.Looked(time.Now()) // it finds them by the expiries
	if done := mustRescue(t, r.Rescue); done.Next > time.Second {
		t.Errorf("the next round in %s, expected at once: a look was full", done.Next)
	}
	dead := die(t, rdb, "h:2:bb", 2, "a")
	rdb.ZAdd(ctx, "troupe:expiries", redis.Z{Score: 2, Member: dead.cur.id})
	units := 0
	for range 2 {
		done := mustRescue(t, r.Rescue)
		units += done.Units
	}
	harness.Equal(t, "jobs of the dead one are rescued", units, 2)
	harness.Equal(t, "entries in the expiries are as they were", rdb.ZCount(ctx, "troupe:expiries", "1", "1").Val(), rescue.LookLimit+5)
	if done := mustRescue(t, r.Rescue); done.Next < limits.RescueEvery/4 {
		t.Errorf("then the next round is in %s", done.Next)
	}
}

// Without its entry in the expiries a dead owner is found by the next look, at most a minute after
// the one before that has read the registry.
func TestTheDeadThatTheIndexLacksAreFoundSoon(t *testing.T) {
	rdb, _ := redistest.New(t)
	r := testRescuer(t, rdb)
	mustRescue(t, r.Rescue) // has read the registry
	mustOpen(t, testEnv(rdb, Strict{"live"}))
	dead := die(t, rdb, "h:2:bb", 2, "a")
	rdb.ZRem(t.Context(), "troupe:expiries", dead.cur.id)
	if done := mustRescue(t, r.Rescue); done.Units != 0 {
		t.Errorf("the registry is read at each look: %+v", done)
	}
	r.Looked(time.Now().Add(-rescue.LackTime - time.Second))
	if done := mustRescue(t, r.Rescue); done.Units != 2 || done.Fetchers != 1 {
		t.Errorf("rescued %+v, expected 2 jobs of one", done)
	}
}
