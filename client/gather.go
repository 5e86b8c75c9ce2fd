package client

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/troupehq/troupe/internal/redisconn"
)

const (
	// directMax is how many single pushes are sent at once, each in a call of its own, so that none
	// waits for the round trip of another. With more than two, the calls cost more than the wait.
	directMax = 2
	// A gathered call carries at most so many jobs and bytes.
	gatherMax   = 1000
	gatherBytes = 1 << 20
	// Two gathered calls are on their way at most: while Redis is at one, those that
	// the other has served make up the next. The second has so many jobs at least.
	flightMax = 2
	flightMin = 24
)

// gatherer sends the single pushes of many goroutines together, without their
// knowing: when directMax of them are on their way, the next ones wait for one
// call that carries them all, one LPUSH a queue. The next gathers while calls are
// on their way: the more callers, the larger the batches.
type gatherer struct {
	mu     sync.Mutex
	direct int // pushes on their way alone
	flying int // gathered calls on their way
	next   []*gathered
}

// gathered is one call in the making.
type gathered struct {
	entries []entry
	size    int
	sent    bool
	errs    []error // nil, or one per entry; set when done is closed
	done    chan struct{}
}

func (call *gathered) err(i int) error {
	if call.errs == nil {
		return nil
	}
	return call.errs[i]
}

// sendOne pushes one entry, alone or with others.
func (c *Client) sendOne(ctx context.Context, e entry) error {
	if c.batch != nil {
		return first(c.batch.add(ctx, []entry{e}))
	}
	if c.kept != nil {
		return first(c.keep([]entry{e}))
	}
	if c.taking != nil {
		return first(c.take(ctx, []entry{e}))
	}
	if e.lock != nil {
		return first(c.sendMixed(ctx, []entry{e}))
	}
	if c.buffer != nil { // no waiting for calls that hang
		if errs, taken := c.buffer.take([]entry{e}); taken {
			return first(errs)
		}
	}
	g := &c.gather
	g.mu.Lock()
	if g.flying == 0 && g.direct < directMax && len(g.next) == 0 {
		g.direct++
		g.mu.Unlock()
		defer func() {
			g.mu.Lock()
			g.direct--
			c.launchLocked()
			g.mu.Unlock()
		}()
		return first(c.deliver(ctx, []entry{e}))
	}
	if err := ctx.Err(); err != nil {
		g.mu.Unlock()
		return err
	}
	call, i := g.joinLocked(e)
	c.launchLocked()
	g.mu.Unlock()
	select {
	case <-call.done:
		return call.err(i)
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
		return call.err(i)
	default:
		return fmt.Errorf("given up while on its way, it may have been pushed: %w", ctx.Err())
	}
}

// joinLocked adds e to the next call that has room.
func (g *gatherer) joinLocked(e entry) (*gathered, int) {
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

// launchLocked sends the next gathered call unless enough are on their way, or a direct
// push will be back to launchLocked it with what joins until then.
func (c *Client) launchLocked() {
	g := &c.gather
	if g.direct >= directMax || g.flying >= flightMax || !g.readyLocked(g.flying) {
		return
	}
	g.flying++
	go c.fly()
}

// readyLocked reports whether a call may leave while others are on their way.
func (g *gatherer) readyLocked(others int) bool {
	return len(g.next) > 0 && (others == 0 || len(g.next[0].entries) >= flightMin)
}

// fly sends gathered calls, one after the other, until none is ready. A panic in a hook of the
// application's is an error of all that are in the call.
func (c *Client) fly() {
	g := &c.gather
	for {
		g.mu.Lock()
		if !g.readyLocked(g.flying - 1) {
			g.flying--
			g.mu.Unlock()
			return
		}
		call := g.next[0]
		g.next = g.next[1:]
		call.sent = true
		g.mu.Unlock()
		if err := redisconn.Try(func() error { call.errs = c.deliverLeft(call.entries); return nil }); err != nil {
			call.errs = same(unavailable(err, true), len(call.entries))
		}
		close(call.done)
		if len(call.entries) >= directMax {
			// Those that it wakes may push again: let them join the next call before it
			// leaves. Few of them are to find nothing on its way and travel alone.
			runtime.Gosched()
		}
	}
}

// deliverLeft delivers the entries that have not stayed behind.
func (c *Client) deliverLeft(entries []entry) []error {
	gone := func(e entry) bool { return e.raw == nil }
	if !slices.ContainsFunc(entries, gone) {
		return c.deliver(context.Background(), entries)
	}
	sent := c.deliver(context.Background(), slices.DeleteFunc(slices.Clone(entries), gone))
	if sent == nil {
		return nil
	}
	errs := make([]error, len(entries))
	for i, e := range entries {
		if !gone(e) {
			errs[i], sent = sent[0], sent[1:]
		}
	}
	return errs
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
