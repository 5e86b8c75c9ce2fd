package client

import (
	"context"
	"fmt"
	"time"

	"github.com/troupehq/troupe/internal/cut"
	"github.com/troupehq/troupe/internal/iterstate"
)

// Cancel asks the iterable job with this jid to end: one that runs does so within
// 5 s, between two items; one that waits, or is to be retried, when it runs next.
// It returns when that was first asked. Nothing tells whether there is such a job,
// and a job that is not iterable does not listen.
func (c *Client) Cancel(ctx context.Context, jid string) (time.Time, error) {
	now := time.Now()
	at, err := iterstate.Cancel(ctx, c.rdb, jid, now)
	if failover(err) {
		rdb, done := fresh(c.rdb)
		defer done()
		at, err = iterstate.Cancel(ctx, rdb, jid, now)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("cancel %s: %w", cut.Text(jid), err)
	}
	return at, nil
}
