package fleet_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/testkit"
)

// A job is cancelled within a second, by the bubble's clock, in whichever process of the fleet it
// runs, and others of the same class go on. Between two beats, which are 10 s apart, nothing else
// tells a process of it.
func TestAJobIsCancelledWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testkit.NewMemory(t)
		type end struct {
			jid   string
			at    time.Time
			cause error
		}
		ends := make(chan end, 10)
		release := make(chan struct{})
		var r troupe.Registry
		troupe.HandleClass(&r, "Waits", troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
			select {
			case <-ctx.Done():
			case <-release:
			}
			ends <- end{p.JID(), time.Now(), context.Cause(ctx)}
			return nil
		}))
		var kits []*testkit.Kit
		for _, queue := range []string{"a", "b", "c"} {
			kits = append(kits, testkit.Start(t, actors.Config{Redis: s.Client, Registry: &r, Concurrency: 2, Queues: actors.Strict{queue}}))
		}
		var jids []string
		for _, queue := range []string{"a", "b", "b", "c"} {
			raw := `{"class":"Waits","args":[],"queue":"` + queue + `","jid":"job` + string(rune('0'+len(jids))) + `"}`
			jids = append(jids, "job"+string(rune('0'+len(jids))))
			if err := s.Client.LPush(t.Context(), "queue:"+queue, raw).Err(); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Await(t, "all run", func() bool {
			return kits[0].Stats().Busy == 1 && kits[1].Stats().Busy == 2 && kits[2].Stats().Busy == 1
		})
		time.Sleep(3 * time.Second) // amid two beats
		began := time.Now()
		process, err := inspect.New(s.Client).CancelRunning(t.Context(), jids[2])
		if err != nil || process != kits[1].Identity() {
			t.Fatalf("%s, %v", process, err)
		}
		if e := <-ends; e.jid != jids[2] || !errors.Is(e.cause, troupe.ErrCancelled) || e.at.Sub(began) >= time.Second {
			t.Errorf("%s ended after %s by %v", e.jid, e.at.Sub(began), e.cause)
		}
		select {
		case e := <-ends:
			t.Errorf("%s has ended, too: %v", e.jid, e.cause)
		case <-time.After(30 * time.Second):
		}
		close(release)
	})
}
