package client

import (
	"context"
	"fmt"
)

// Flush waits until no job is buffered any more, or until ctx ends: then it is an
// *UnavailableError that says how many are. With a ctx that has ended it only tells.
// Without WithBuffer it does nothing.
func (c *Client) Flush(ctx context.Context) error {
	if err := c.Err(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	b := c.buffer
	if b == nil {
		return nil
	}
	select {
	case b.kick <- struct{}{}:
	default:
	}
	for {
		b.mu.Lock()
		n, cause, change := len(b.jobs)+len(b.batch), b.cause, b.change
		b.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return &UnavailableError{Buffered: n, Err: cause}
		}
	}
}

// Close flushes the buffer of WithBuffer within ctx and ends it. What is still in
// it then is gone: an *UnavailableError says how many jobs. Later pushes fail with
// ErrClosed, and so does each Await. The redis client stays open. Without WithBuffer it ends only the calls of Await.
func (c *Client) Close(ctx context.Context) error {
	if err := c.Err(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if c.waiters != nil {
		c.waiters.close()
	}
	b := c.buffer
	if b == nil {
		return nil
	}
	_ = c.Flush(ctx) // what is left is counted here, that of a push beside Flush too
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if n := len(b.jobs) + len(b.batch); n > 0 {
		err = &UnavailableError{Buffered: n, Err: b.cause}
	}
	b.closed, b.jobs, b.batch = true, nil, nil
	b.changed()
	if b.stop != nil {
		b.stop()
	}
	select {
	case b.kick <- struct{}{}:
	default:
	}
	return err
}
