package testkit_test

import (
	"context"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/testkit"
)

// order pushes a receipt.
type order struct {
	Account int64 `arg:"0"`
}

func (order) Class() string { return "Order" }

func pushReceipt(ctx context.Context, j *troupe.Job[order]) error {
	_, err := client.FromContext(ctx).Push(ctx, &receipt{j.Args.Account})
	return err
}

// stamped marks what the client middleware has seen.
func stamped(next client.PushFunc) client.PushFunc {
	return func(ctx context.Context, p *troupe.Payload) error {
		p.SetString("tenant", "acme")
		return next(ctx, p)
	}
}

// A handler that pushes finds its client in its context, however it is run.
func TestAHandlerPushesThroughItsContext(t *testing.T) {
	var r troupe.Registry
	troupe.Handle(&r, pushReceipt)
	var tenant string
	troupe.Handle(&r, func(_ context.Context, j *troupe.Job[*receipt]) error {
		tenant, _ = j.Payload.String("tenant")
		return nil
	})
	t.Run("a daemon in a bubble", func(t *testing.T) {
		tenant = ""
		testkit.Virtual(t, actors.Config{Registry: &r, ClientMiddleware: []client.Middleware{stamped}}, func(t *testing.T, k *testkit.Kit) {
			k.Push(order{7})
			k.Await("both have run", func() bool { return k.Stats().Processed == 2 && k.Settled() })
			if k.Stats().Failed != 0 || tenant != "acme" {
				t.Errorf("%+v, tenant %q", k.Stats(), tenant)
			}
		})
	})
	t.Run("a client of one's own", func(t *testing.T) {
		q := testkit.Fake(t)
		k := testkit.Start(t, actors.Config{Registry: &r, Client: q.Client})
		k.Push(order{7})
		testkit.Await(t, "it is pushed", func() bool { return len(q.All()) == 1 })
	})
	t.Run("Drain", func(t *testing.T) {
		q := testkit.Fake(t)
		if _, err := q.Client.Push(t.Context(), order{7}); err != nil {
			t.Fatal(err)
		}
		if n, err := q.Drain(t.Context(), &r); n != 2 || err != nil {
			t.Errorf("ran %d, %v", n, err)
		}
	})
	t.Run("Inline", func(t *testing.T) {
		q := testkit.Inline(t, &r, nil)
		if _, err := q.Client.Push(t.Context(), order{7}); err != nil || len(q.All()) != 2 {
			t.Errorf("pushed %d, %v", len(q.All()), err)
		}
	})
	t.Run("Perform", func(t *testing.T) {
		q := testkit.Fake(t)
		if err := testkit.Perform(t, client.NewContext(t.Context(), q.Client), pushReceipt, order{7}); err != nil || len(q.All()) != 1 {
			t.Errorf("pushed %d, %v", len(q.All()), err)
		}
		if err := testkit.Perform(t, t.Context(), pushReceipt, order{7}); err != nil || len(q.All()) != 1 {
			t.Errorf("without a client: pushed %d, %v", len(q.All()), err)
		}
	})
}
