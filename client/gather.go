package client

import (
	"context"
	"fmt"
	"sync"
)

const (
	// directMax is how many single pushes travel alone, side by side. With fewer
	// callers than that a batch does not pay: each would wait for a round trip
	// that is not its own.
	directMax = 8
	// A gathered call carries at most so many jobs and bytes.
	gatherMax   = 1000
	gatherBytes = 1 << 20
)

// gatherer sends the single pushes of many goroutines together, without their
// knowing: when directMax of them are on their way, the next ones wait for one
// call that carries them all, one LPUSH a queue. Only one such call is on its
// way at a time, so that the next gathers meanwhile: the more callers, the
// larger the batches.
type gatherer struct {
	mu     sync.Mutex
	direct int  // pushes on their way alone
	flying bool // a gathered call is on its way
	next   []*gathered
}

// gathered is one call in the making.
type gathered struct {
	entries []entry
	size    int
	sent    bool
	errs    []error // one per entry; set when done is closed
	done    chan struct{}
}

// sendOne pushes one entry, alone or with others.
func (c *Client) sendOne(ctx context.Context, e entry) error {
	if c.buffer != nil { // no waiting for calls that hang
		if errs, taken := c.buffer.take([]entry{e}); taken {
			return first(errs)
		}
	}
	g := &c.gather
	g.mu.Lock()
	if !g.flying && g.direct < directMax && len(g.next) == 0 {
		g.direct++
		g.mu.Unlock()
		defer func() {
			g.mu.Lock()
			g.direct--
			c.launch()
			g.mu.Unlock()
		}()
		return first(c.deliver(ctx, []entry{e}))
	}
	if err := ctx.Err(); err != nil {
		g.mu.Unlock()
		return err
	}
	call, i := g.join(e)
	c.launch()
	g.mu.Unlock()
	select {
	case <-call.done:
		return call.errs[i]
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !call.sent {
		call.entries[i].raw = nil // stays behind
		return ctx.Err()
	}
	select {
	case <-call.done:
		return call.errs[i]
	default:
		return fmt.Errorf("given up while on its way, it may have been pushed: %w", ctx.Err())
	}
}

// join adds e to the next call that has room. g.mu is held.
func (g *gatherer) join(e entry) (*gathered, int) {
	var call *gathered
	if n := len(g.next); n > 0 {
		call = g.next[n-1]
	}
	if call == nil || len(call.entries) == gatherMax || call.size > gatherBytes {
		call = &gathered{done: make(chan struct{})}
		g.next = append(g.next, call)
	}
	call.entries = append(call.entries, e)
	call.size += len(e.raw)
	return call, len(call.entries) - 1
}

// launch sends the next gathered call unless one is on its way, or a direct
// push will be back to launch it with what joins until then. gather.mu is held.
func (c *Client) launch() {
	g := &c.gather
	if g.flying || len(g.next) == 0 || g.direct >= directMax {
		return
	}
	g.flying = true
	go c.fly()
}

// fly sends gathered calls, one after the other, until none waits.
func (c *Client) fly() {
	g := &c.gather
	for {
		g.mu.Lock()
		if len(g.next) == 0 {
			g.flying = false
			g.mu.Unlock()
			return
		}
		call := g.next[0]
		g.next = g.next[1:]
		call.sent = true
		entries, at := call.entries[:0:0], make([]int, 0, len(call.entries))
		for i, e := range call.entries {
			if e.raw != nil {
				entries, at = append(entries, e), append(at, i)
			}
		}
		g.mu.Unlock()
		call.errs = make([]error, len(call.entries))
		for k, err := range c.deliver(context.Background(), entries) {
			call.errs[at[k]] = err
		}
		close(call.done)
	}
}

// first is the first error that is one.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
