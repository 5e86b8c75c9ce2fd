package supervised

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/test/harness"
)

// Held messages come in order at the release, and what is sent meanwhile after
// them; stops and crashes pass.
func TestHoldKeepsTheOrderAndLetsTheRestPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := bare(t)
		var got []int
		starts := 0
		parent, err := d.actors.Load().Root.SpawnNamed(d.Props("parent", "", func() actor.Actor {
			return recorder{func(ctx actor.Context) {
				if _, ok := ctx.Message().(*actor.Started); ok {
					Child(ctx, d.Props("child", "", func() actor.Actor {
						return recorder{func(ctx actor.Context) {
							switch m := ctx.Message().(type) {
							case *actor.Started:
								starts++
							case int:
								got = append(got, m)
							}
						}}
					}), "child")
				}
			}}
		}), "parent")
		harness.OK(t, err)
		synctest.Wait()
		const path = "parent/child"
		child := actor.NewPID(d.actors.Load().Address(), path)
		depth := func() int { return rowOf(d, path).Depth }

		harness.OK(t, d.Hold(path))
		for i := range 100 {
			d.Root().Send(child, i)
		}
		synctest.Wait()
		if len(got) != 0 || depth() != 100 {
			t.Errorf("%d messages passed, depth %d", len(got), depth())
		}
		harness.OK(t, d.Crash(path, errors.New("boom")))
		time.Sleep(time.Minute) // for the backoff, in the bubble's time
		synctest.Wait()
		if starts != 2 || len(got) != 0 || depth() != 100 {
			t.Errorf("after a crash: started %d times, %d messages passed, depth %d", starts, len(got), depth())
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 100 {
				d.Root().Send(child, 100+i)
			}
		}()
		harness.OK(t, d.Release(path))
		<-done
		synctest.Wait()
		for i, n := range got {
			if i != n {
				t.Fatalf("message %d is %d: %v", i, n, got)
			}
		}
		if len(got) != 200 || depth() != 0 {
			t.Errorf("%d messages came, depth %d", len(got), depth())
		}

		harness.OK(t, d.Hold(path))
		harness.OK(t, d.Suspend("parent"))
		ended := terminated(d, parent)
		d.Root().Stop(parent)
		wait(t, "the stop of a suspended actor with a held child", ended)
		if err := d.Hold(path); err == nil {
			t.Error("an actor that has ended was held")
		}
		time.Sleep(time.Second) // the library's dead-letter window
	})
}
