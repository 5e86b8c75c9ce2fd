package client

import (
	"context"
	"fmt"
	"time"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// CancelIterable asks the iterable job (troupe.HandleIterable, Ruby's IterableJob) with this jid
// to end, as Sidekiq's cancel! does: one that runs does so within 5 s, between two items; one that
// waits, or is to be retried, when it runs next. It returns when that was first asked. Nothing tells
// whether there is such a job, and a job that is not iterable does not listen:
// inspect.Inspector.Cancel is for any job, and says what it found.
func (c *Client) CancelIterable(ctx context.Context, jid string) (time.Time, error) {
	if err := c.Err(); err != nil {
		return time.Time{}, fmt.Errorf("cancel %s: %w", words.Text(jid), err)
	}
	now := time.Now()
	at, err := job.CancelIteration(ctx, c.rdb, jid, now)
	if failover(err) {
		rdb, done := fresh(c.rdb)
		defer done()
		at, err = job.CancelIteration(ctx, rdb, jid, now)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("cancel %s: %w", words.Text(jid), err)
	}
	return at, nil
}
