package actors_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// A Redis that still loads its data, as after a restart of the whole machine, is waited for.
func TestAStartWaitsWhileRedisLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, log := testkit.NewMemory(t), new(harness.Buffer)
		mem.SetError("LOADING Redis is loading the dataset in memory")
		d := harness.Must(actors.New(actors.Config{Redis: mem.Client, Registry: new(troupe.Registry), Logger: zerolog.New(log)}))(t)
		started := make(chan error, 1)
		go func() { started <- d.Start(t.Context()) }()
		time.Sleep(5 * time.Minute)
		if len(started) > 0 || log.Count("redis is loading its data") != 1 {
			t.Fatalf("the start has ended, or was not told to wait once: %s", log.String())
		}
		mem.SetError("")
		harness.OK(t, <-started)
		if _, err := d.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second) // in a bubble: the actor library looks after a message that found nobody for so long
	})
}
