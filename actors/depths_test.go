package actors_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/testkit"
)

// The leader notes once a minute what waits in the queues; the others do not.
func TestTheLeaderNotesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		for range 3 {
			testkit.Start(t, actors.Config{Redis: mem.Client})
		}
		mem.Client.SAdd(t.Context(), "queues", "nobodys")
		mem.Client.LPush(t.Context(), "queue:nobodys", `{"class":"A","args":[]}`, `{"class":"A","args":[]}`)
		time.Sleep(5*time.Minute + 30*time.Second)
		all, err := beat.LastDepths(t.Context(), mem.Client, 100)
		if err != nil || len(all) < 4 || len(all) > 6 {
			t.Fatal(all, err)
		}
		for _, s := range all {
			if s.Jobs != 2 || s.Queues["nobodys"].Jobs != 2 {
				t.Errorf("%+v", s)
			}
		}
	})
}
