package actors_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// A run whose limit Redis refuses to be asked keeps its worker: no more run at once than the capsule has, and each has a slot
// for as long as it runs.
func TestARefusedAskKeepsItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var l keyed
		l.handle(&r, 100*time.Second, troupe.Limit{Name: "wide", AtOnce: 8})
		harness.OK(t, mem.Client.Set(ctx, "troupe:slots:wide", "no zset", 0).Err())
		for i := range 6 {
			_, err := client.New(mem.Client).PushClass(ctx, "C", []any{"t0", i})
			harness.OK(t, err)
		}
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 2}}})
		time.Sleep(30 * time.Second) // virtual
		harness.Equal(t, "runs", len(l.ran), 0)
		harness.OK(t, mem.Client.Del(ctx, "troupe:slots:wide").Err())
		time.Sleep(80 * time.Second)
		harness.Equal(t, "slots of those that run", mem.Client.ZCard(ctx, "troupe:slots:wide").Val(), 2)
		time.Sleep(5 * time.Minute)
		k.Stop()
		harness.Equal(t, "runs", len(l.ran), 6)
		harness.Equal(t, "most at once", fmt.Sprint(l.most), `map[["t0":2]`)
	})
}

// A slot lives for several beats, however rare they are, and beats renew it although the rest of them fails.
func TestASlotLivesFromBeatToBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var l keyed
		l.handle(&r, 5*time.Minute, troupe.Limit{Name: "one", AtOnce: 1})
		for i := range 3 {
			_, err := client.New(mem.Client).PushClass(ctx, "C", []any{"t0", i})
			harness.OK(t, err)
		}
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, HeartbeatInterval: time.Minute, Capsules: []actors.Capsule{{Concurrency: 2}}})
		harness.OK(t, mem.Client.Del(ctx, "processes").Err())
		harness.OK(t, mem.Client.Set(ctx, "processes", "no set", 0).Err())
		time.Sleep(9 * time.Minute)
		harness.OK(t, mem.Client.Del(ctx, "processes").Err())
		time.Sleep(8 * time.Minute)
		k.Stop()
		harness.Equal(t, "runs", len(l.ran), 3)
		harness.Equal(t, "most at once", fmt.Sprint(l.most), `map[["t0":1]`)
	})
}
