package actors_test

import (
	"context"
	"errors"
	"strings"
	"sync"
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

// claims notes which jobs are fetched together.
type claims struct {
	fetch.Fetcher
	mu sync.Mutex
	of map[string]string // class of the job -> its claim
}

func (f *claims) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	units, err := f.Fetcher.Take(ctx, n, acks)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range units {
		if p, err := troupe.ParsePayload(u.Payload); err == nil {
			f.of[p.Class()] = u.Receipt[:strings.LastIndex(u.Receipt, ".")]
		}
	}
	return units, err
}

// A job that takes longer than the others of its claim, or goes another way, keeps none of
// them in progress.
func TestASlowOrFailedJobDelaysNoOtherOfItsClaim(t *testing.T) {
	for name, fails := range map[string]bool{"one takes long": false, "another fails": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := testkit.NewMemory(t)
				f := &claims{of: map[string]string{}}
				then := 0
				var r troupe.Registry
				for class, run := range map[string]func() error{
					"Quick":   func() error { return nil },
					"Failing": func() error { return errors.New("no") },
					"Watching": func() error {
						time.Sleep(50 * time.Millisecond)
						then = inProgress(t, m.Client)
						return nil
					},
				} {
					troupe.HandleClass(&r, class, troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return run() }))
				}
				k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: &r, Capsules: []actors.Capsule{{
					Concurrency: 40, Fetch: func(env fetch.Env) (_ fetch.Fetcher, err error) {
						f.Fetcher, err = fetch.NewReliable(env)
						return f, err
					},
				}}}, testkit.Strict())
				m.Client.SAdd(ctx, "paused", "default") // until all have been pushed
				time.Sleep(5 * time.Second)             // and no wait is under way that began before
				for i := range 40 {
					class := "Quick"
					switch {
					case i == 10:
						class = "Watching"
					case i == 12 && fails:
						class = "Failing"
					}
					if _, err := client.New(m.Client).PushClass(ctx, class, nil); err != nil {
						t.Fatal(err)
					}
				}
				m.Client.SRem(ctx, "paused", "default")
				k.Await("the end", func() bool { return k.Stats().Processed == 40 })
				k.Await("all settled", k.Settled)
				watching, failing := f.of["Watching"], f.of["Failing"]
				if watching == "" || strings.HasPrefix(watching, "w") || fails && failing != watching {
					t.Fatalf("the jobs came in %q and %q, not in one claim", watching, failing)
				}
				harness.Equal(t, "in progress while one job of the claim runs", then, 1)
				harness.Equal(t, "in progress at the end", inProgress(t, m.Client), 0)
				if n := size(t, m.Client, "retry"); n != map[bool]int{true: 1}[fails] {
					t.Errorf("%d jobs are to be retried", n)
				}
			})
		})
	}
}
