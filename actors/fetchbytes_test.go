package actors_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/testkit"
)

// weighing notes the most bytes that one Take brought before its last unit.
type weighing struct {
	fetch.Fetcher
	most atomic.Int64
}

func (f *weighing) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	units, err := f.Fetcher.Take(ctx, n, acks)
	size := 0
	for i := range units {
		f.most.Store(max(f.most.Load(), int64(size)))
		size += len(units[i].Payload)
	}
	return units, err
}

// Large jobs behind small ones come as FetchBytes let them, and none waits for a look at
// the queues that comes seconds later.
func TestLargeJobsBehindSmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, small, large = 64 << 10, 100, 50
		var ran atomic.Int64
		var r troupe.Registry
		troupe.HandleClass(&r, "Job", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { ran.Add(1); return nil }))
		mem := testkit.NewMemory(t)
		c := client.New(mem.Client)
		for range 5 {
			for i := range small + large {
				pad := 10
				if i >= small {
					pad = 20 << 10
				}
				if _, err := c.PushClass(t.Context(), "Job", []any{strings.Repeat("x", pad)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		f := &weighing{}
		began := time.Now()
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Capsules: []actors.Capsule{{
			Concurrency: 40, FetchBytes: bound, Fetch: func(env fetch.Env) (_ fetch.Fetcher, err error) {
				f.Fetcher, err = fetch.NewReliable(env)
				return f, err
			},
		}}})
		k.Await("all done", func() bool { return ran.Load() == 5*(small+large) })
		if took := time.Since(began); took > time.Second {
			t.Errorf("they took %v", took)
		}
		k.Stop()
		if most := f.most.Load(); most >= bound || most < bound/2 {
			t.Errorf("a fetch went on behind %d bytes, expected somewhat less than %d", most, bound)
		}
	})
}

func TestFetchBytesAreChecked(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	for _, n := range []int{-1, 1<<30 + 1} {
		_, err := actors.New(actors.Config{Redis: rdb, Registry: &troupe.Registry{}, Capsules: []actors.Capsule{{FetchBytes: n}}})
		if want := "Capsules[0].FetchBytes is "; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: error %v, expected one with %q", n, err, want)
		}
	}
}
