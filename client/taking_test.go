package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/testkit"
)

// A client whose pushes go into a table makes no batches: their keys would not be in its transaction.
func TestATableTakesNoBatch(t *testing.T) {
	taken := 0
	c := client.New(testkit.NewMemory(t).Client).Taking(func(_ context.Context, pushes []job.Push) []error {
		taken += len(pushes)
		return nil
	})
	_, err := c.Batch(t.Context(), client.BatchOptions{}, func(b *client.Batch) error { return nil })
	if field := (*client.FieldError)(nil); !errors.As(err, &field) {
		t.Errorf("a batch of a table: %v, want a *client.FieldError", err)
	}
	if _, err := c.PushClass(t.Context(), "C", []any{1}); err != nil || taken != 1 {
		t.Errorf("a push: %v, %d were taken", err, taken)
	}
}
