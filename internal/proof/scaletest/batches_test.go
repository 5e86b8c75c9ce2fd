package scaletest

import (
	"context"
	"strings"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// On a Redis Cluster batches are refused at once, in a handler too, with the reason and the ways around; nothing is written. A job that comes
// there with a batch of another server is not run: it is dead, and says why.
func TestBatchesAreRefusedOnACluster(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	c := client.New(rdb)
	refused := func(what string, err error) {
		t.Helper()
		for _, want := range []string{"a Redis Cluster", "in different slots", "one server, or shards", "a chain (PushChain) of one queue works there"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", what, err, want)
			}
		}
	}
	called := false
	fn := func(*client.Batch) error { called = true; return nil }
	_, err := c.Batch(ctx, client.BatchOptions{}, fn)
	refused("Batch", err)
	refused("GrowBatch", c.GrowBatch(ctx, "b", fn))
	refused("CloseBatch", c.CloseBatch(ctx, "b"))
	refused("CancelBatch", c.CancelBatch(ctx, "b"))

	within := make(chan error, 2)
	r := &record{}
	cfg := config(rdb, r)
	troupe.HandleClass(cfg.Registry, "Batches", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
		_, err := client.Within(ctx).Batch(ctx, client.BatchOptions{}, fn)
		within <- err
		_, err = client.FromContext(ctx).Batch(ctx, client.BatchOptions{}, fn)
		within <- err
		return nil
	}))
	start(t, cfg)
	harness.Must(c.PushClass(ctx, "Batches", nil, client.Queue("q0")))(t)
	refused("Within", <-within)
	refused("FromContext", <-within)
	if called {
		t.Error("the function of a batch was called")
	}

	const stranger = "0123456789abcdef01234567"
	harness.OK(t, rdb.LPush(ctx, "queue:q0", `{"class":"Job","queue":"q0","args":["run"],"jid":"`+stranger+`","retry":true,"created_at":1795000000,"t_batch":"elsewhere:0"}`).Err())
	harness.AwaitFor(t, patience, "the job of a batch is dead", func() bool { return rdb.ZCard(ctx, "dead").Val() == 1 })
	dead := rdb.ZRange(ctx, "dead", 0, 0).Val()[0]
	if !strings.Contains(dead, stranger) || !strings.Contains(dead, "a job of batch elsewhere cannot be counted there: ") {
		t.Errorf("the dead job is %s", dead)
	}
	harness.Equal(t, "its runs", r.count(stranger), 0)
	if keys := rdb.Keys(ctx, "troupe:batch*").Val(); len(keys) != 0 {
		t.Errorf("keys of batches: %q", keys)
	}
}
