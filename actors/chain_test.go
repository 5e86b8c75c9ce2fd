package actors_test

import (
	"testing"
	"testing/synctest"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// Slots are woken one after the other, and more is fetched as they come up: each
// of them gets a job of those that wait.
func TestEverySlotGetsAJob(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			m := testkit.NewMemory(t)
			s := script.New(t)
			const n = 50
			for range n {
				if _, err := client.New(m.Client).Push(ctx, script.Hang()); err != nil {
					t.Fatal(err)
				}
			}
			k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: n}}})
			k.Await("all run", func() bool { return k.Stats().Busy == n })
			s.Release()
		})
	}
}
