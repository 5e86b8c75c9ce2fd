package fetch

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// One master is gone for good, neither that of the leases nor that of the lock: what a dead process
// had in the slots of the others is rescued.
func TestRescueWithoutOneMaster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client()
	ctx := t.Context()
	master := func(key string) string {
		node := harness.Must(rdb.MasterForKey(ctx, key))(t)
		return node.Options().Addr
	}
	harness.OK(t, rdb.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		return node.ConfigSet(ctx, "cluster-require-full-coverage", "no").Err()
	}))
	needed := []string{master(keys.CommonOf("", true).Expiries), master(keys.Rescue)}
	var queues []string
	gone := ""
	for i := range 12 {
		name := fmt.Sprint("q", i)
		queues = append(queues, name)
		if at := master(keys.Queue(name)); at != needed[0] && at != needed[1] {
			gone = at
		}
	}
	lost := 0
	for _, name := range queues {
		rdb.LPush(ctx, keys.Queue(name), name)
		if master(keys.Queue(name)) == gone {
			lost++
		}
	}
	dead := member(t, rdb, "h:2:bb", queues...)
	if units := mustTake(t, dead, len(queues)); len(units) != len(queues) {
		t.Fatalf("took %d", len(units))
	}
	lapse(t, rdb, dead.cur.id)
	cluster.Node(gone).Kill()
	units := 0
	r := testRescuer(t, rdb)
	harness.Await(t, "the jobs of the other slots are back", func() bool {
		rdb.ZAdd(ctx, keys.CommonOf("", true).Expiries, redis.Z{Score: 1, Member: dead.cur.id})
		done, err := r.Rescue(ctx)
		if err == nil {
			t.Fatal("no error, with a master gone")
		}
		units += done.Units
		return units == len(queues)-lost
	})
	if lost == 0 || !rdb.HExists(ctx, "{troupe}:places", dead.cur.id).Val() {
		t.Errorf("%d jobs are on the master that is gone, and the process is forgotten", lost)
	}
}
