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

// takes notes what is fetched together.
type takes struct {
	fetch.Fetcher
	mu      sync.Mutex
	parcels map[string]*fetch.Parcel // by class of the job
}

func (f *takes) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	units, err := f.Fetcher.Take(ctx, n, acks)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range units {
		if p, err := troupe.ParsePayload(u.Payload); err == nil {
			f.parcels[p.Class()] = u.Parcel
		}
	}
	return units, err
}

// Jobs that one fetch brings are acked together, unless one of them takes much
// longer or goes another way.
func TestJobsFetchedTogetherAreAckedTogether(t *testing.T) {
	for name, fails := range map[string]bool{"one takes long": false, "another fails": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := testkit.NewMemory(t)
				f := &takes{parcels: map[string]*fetch.Parcel{}}
				soon, then := 0, 0
				var r troupe.Registry
				for class, run := range map[string]func() error{
					"Quick":   func() error { return nil },
					"Failing": func() error { return errors.New("no") },
					"Watching": func() error {
						time.Sleep(2 * time.Millisecond)
						soon = inProgress(t, m.Client)
						time.Sleep(48 * time.Millisecond)
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
				k.AwaitSettled()

				together := f.parcels["Watching"]
				if together == nil || fails && f.parcels["Failing"] != together {
					t.Fatal("the jobs did not come together")
				}
				want := together.Size()
				if fails {
					want = 2 // the one that watches, and the one that is about to go elsewhere
				}
				if soon != want || then != 1 {
					t.Errorf("%d in progress after 2 ms and %d after 50, want %d and 1", soon, then, want)
				}
				if n := inProgress(t, m.Client); n != 0 {
					t.Errorf("%d in progress at the end", n)
				}
			})
		})
	}
}
