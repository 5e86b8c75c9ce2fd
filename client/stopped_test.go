package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// odd stops the jobs whose number is odd, and says why.
func odd(next client.PushFunc) client.PushFunc {
	return func(ctx context.Context, p *troupe.Payload) error {
		var n int
		if err := troupe.DecodeArgs(p.Args(), (*number)(&n)); err != nil {
			return err
		}
		if n%2 == 1 {
			return fmt.Errorf("number %d is a duplicate: %w", n, client.ErrStopped)
		}
		return next(ctx, p)
	}
}

type number int

func (number) Class() string { return "Number" }

// Each way to push many tells which jobs middleware has stopped, and why, across batches and shards.
func TestBulkPushesTellWhatWasStopped(t *testing.T) {
	rdb, _ := redistest.New(t)
	other, _ := redistest.New(t)
	c := client.New(rdb, client.WithMiddleware(odd))
	const jobs = 25
	numbers := func(yield func(number) bool) {
		for i := range jobs {
			if !yield(number(i)) {
				return
			}
		}
	}
	items := func() (items []client.Item) {
		for n := range iter.Seq[number](numbers) {
			items = append(items, client.Job(n, client.Queue([]string{"a", "b"}[int(n)/2%2])))
		}
		return items
	}
	sharded := harness.Must(client.NewSharded([]client.Shard{{Name: "one", Redis: rdb, Queues: []string{"a"}}, {Name: "two", Redis: other, Queues: []string{"b"}}}, client.WithMiddleware(odd)))(t)
	for name, push := range map[string]func() ([]string, error){
		"PushBulk": func() ([]string, error) {
			return client.PushBulk(t.Context(), c, numbers, client.BatchSize(10))
		},
		"PushBulkClass": func() ([]string, error) {
			return c.PushBulkClass(t.Context(), "Number", func(yield func([]any) bool) {
				for i := range jobs {
					if !yield([]any{i}) {
						return
					}
				}
			}, client.BatchSize(10))
		},
		"PushMany":         func() ([]string, error) { return c.PushMany(t.Context(), items()...) },
		"Sharded.PushMany": func() ([]string, error) { return sharded.PushMany(t.Context(), items()...) },
	} {
		jids, err := push()
		stopped, ok := errors.AsType[*client.StoppedError](err)
		if !ok || !errors.Is(err, client.ErrStopped) || len(jids) != jobs {
			t.Fatalf("%s: %d jids, %v", name, len(jids), err)
		}
		for i, jid := range jids {
			why := stopped.Jobs[i]
			if odd := i%2 == 1; (jid == "") != odd || (why != nil) != odd || odd && (!errors.Is(why, client.ErrStopped) || !errors.Is(err, client.ErrStopped)) {
				t.Errorf("%s: job %d has the jid %q, stopped by %v", name, i, jid, why)
			}
		}
		harness.ErrorHas(t, name, err, "12 jobs not pushed, the first is job 2: ")
		harness.ErrorHas(t, name, stopped.Jobs[3], "number 3 is a duplicate")
		harness.EqualList(t, name, slices.Sorted(maps.Keys(stopped.Jobs)), []int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23})
	}
}

// A failure later on does not hide what was stopped before.
func TestAFailedBulkPushTellsWhatWasStopped(t *testing.T) {
	rdb, _ := redistest.New(t)
	c := client.New(rdb, client.WithMiddleware(odd))
	jids, err := client.PushBulk(t.Context(), c, func(yield func(number) bool) {
		for i := range 15 {
			if i == 12 {
				harness.OK(t, rdb.Close())
			}
			if !yield(number(i)) {
				return
			}
		}
	}, client.BatchSize(10))
	stopped, ok := errors.AsType[*client.StoppedError](err)
	if !ok || len(stopped.Jobs) != 5 || len(jids) != 10 {
		t.Fatalf("%d jids, %v", len(jids), err)
	}
	harness.ErrorHas(t, "error", err, "push bulk: after 10 jobs: ")
}
