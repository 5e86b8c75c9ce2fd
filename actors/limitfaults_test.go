package actors_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
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

// slowAnswer has the first answer of a limit come late.
type slowAnswer struct {
	fetch.Effector
	late *atomic.Bool
}

func (s slowAnswer) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	results, err := s.Effector.Settle(ctx, moves)
	if moves[0].To == fetch.ToStay && s.late.CompareAndSwap(false, true) {
		time.Sleep(50 * time.Second) // virtual
	}
	return results, err
}

// A process that was away when its limit let a job in does not start it on the old answer: the slot may have ended, and another
// job may have it.
func TestAnOldAnswerOfALimitIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var l keyed
		l.handle(&r, 30*time.Second, troupe.Limit{Name: "slow", AtOnce: 1})
		var late atomic.Bool
		slow := func(env fetch.Env) (fetch.Fetcher, error) {
			f, err := fetch.NewReliable(env)
			if err != nil {
				return nil, err
			}
			return slowAnswer{f.(fetch.Effector), &late}, nil
		}
		push := func(i int) {
			_, err := client.New(mem.Client).PushClass(ctx, "C", []any{"t0", i})
			harness.OK(t, err)
		}
		push(0)
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{Fetch: slow}}})
		time.Sleep(time.Second)
		harness.Equal(t, "an answer is late", late.Load(), true)
		harness.Equal(t, "slots", mem.Client.ZCard(ctx, "troupe:slots:slow").Val(), 1)
		other := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r})
		time.Sleep(45 * time.Second) // the slot has ended
		push(1)
		time.Sleep(3 * time.Minute)
		k.Stop()
		other.Stop()
		harness.Equal(t, "runs", len(l.ran), 2)
		harness.Equal(t, "most at once", fmt.Sprint(l.most), `map[["t0":1]`)
	})
}
