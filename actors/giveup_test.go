package actors_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/testkit"
)

// A job that is given up because it is unresponsive has failed like any other: its error and
// death handlers are told, and no actor crashes, however many there are.
func TestHandlersHearOfAJobThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 40
		release := make(chan struct{})
		var mu sync.Mutex
		failed, died := map[string]int{}, map[string]int{}
		var r troupe.Registry
		troupe.HandleClass(&r, "Stubborn", troupe.HandlerFunc(stubborn(release)), troupe.Options{Timeout: 20 * time.Millisecond})
		k := testkit.Start(t, actors.Config{
			Registry: &r, Grace: 30 * time.Millisecond, Timeout: 50 * time.Millisecond,
			Capsules: []actors.Capsule{{Concurrency: 5, MaxUnresponsive: jobs, Queues: fetch.Strict{"default"}}},
			ErrorHandlers: []actors.ErrorHandler{func(_ context.Context, err error, in actors.ErrorContext) {
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, troupe.ErrJobTimeout) && in.Payload.Class() == "Stubborn" && in.Queue == "default" {
					failed[in.Payload.JID()]++
				}
			}},
			DeathHandlers: []actors.DeathHandler{func(_ context.Context, p *troupe.Payload, err error) {
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, troupe.ErrJobTimeout) && p.Class() == "Stubborn" {
					died[p.JID()]++
				}
			}},
		})
		var jids []string
		for i := range jobs {
			jids = append(jids, k.PushClass("Stubborn", []any{}, client.Retry(i%2))) // every other one dies of it
		}
		time.Sleep(10 * time.Second)
		if n, m := size(t, k.Redis, "retry"), size(t, k.Redis, "dead"); n != jobs/2 || m != jobs/2 {
			t.Errorf("%d jobs in the retry set and %d in the dead set, want %d each", n, m, jobs/2)
		}
		mu.Lock()
		for i, jid := range jids {
			if failed[jid] != 1 || died[jid] != 1-i%2 {
				t.Errorf("job %d: the error handler was told %d times, the death handler %d times, want 1 and %d", i, failed[jid], died[jid], 1-i%2)
			}
		}
		mu.Unlock()
		for _, n := range k.Tree() {
			if n.Restarts > 0 || n.LastFailure != "" {
				t.Errorf("%s: %d restarts, last failure %s", n.Path, n.Restarts, n.LastFailure)
			}
		}
		close(release)
	})
}
