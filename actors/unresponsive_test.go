package actors_test

import (
	"testing"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// A job that fails or is parked leaves no ack behind whose delivery would wake
// the fetcher; the slot that it frees must do so.
func TestJobsThatOnlyFailDoNotStopTheFetcher(t *testing.T) {
	s := script.New(t)
	k := testkit.Start(t, actors.Config{
		Redis: testkit.Redis(t), Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 4}},
	}, testkit.Strict())
	const rounds, jobs = 20, 60
	for round := range uint64(rounds) {
		for range jobs {
			k.Push(script.Step{Do: "kill"})
		}
		k.Await("the next round", func() bool { return k.Stats().Processed == (round+1)*jobs })
	}
}
