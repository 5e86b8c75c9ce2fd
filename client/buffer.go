package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/redisconn"
)

// WithBuffer makes a client keep up to n jobs in memory while Redis is away, instead
// of failing their pushes. It sends them in order when Redis is back. A push
// without an error then means that the job is in Redis or in the buffer. The
// buffer ends with the process: call Close at the end, and do not use a buffer if a
// job must not be lost. A push that finds n jobs in the buffer is an
// *UnavailableError.
//
// A push that was under way when Redis went away, and may have arrived, is still an
// *UnavailableError: a second push could make two jobs of it. The
// buffer is sent in numbered parts, and Redis takes each part once even if a reply
// is lost and the part is sent again. On a Redis Cluster, and with a client that is not
// one of go-redis' own types, a lost reply may push jobs twice, with the same jid.
func WithBuffer(n int) ClientOption {
	return func(c *Client) {
		if n < 1 {
			c.fail(&FieldError{"WithBuffer", fmt.Sprint(n), "1 or more"})
			return
		}
		c.buffer = &buffer{c: c, max: n, token: job.NewID(), change: make(chan struct{}), kick: make(chan struct{}, 1)}
	}
}

const (
	// flushMin and flushMax bound the pause between two tries to send.
	flushMin = 100 * time.Millisecond
	flushMax = 2 * time.Second
	// flushTime bounds one try.
	flushTime = 10 * time.Second
)

// buffer holds jobs while Redis is away. One goroutine sends them; it lives as
// long as there is something to send, or Redis is away.
type buffer struct {
	c     *Client
	max   int
	token string // names the marker of the batches in Redis

	mu      sync.Mutex
	away    bool // pushes go in here
	cause   error
	jobs    []entry
	batch   []entry // sent under number, what became of it not known yet; they count as jobs
	number  uint64
	closed  bool
	change  chan struct{} // closed, and made anew, when something has changed
	kick    chan struct{} // capacity 1: try at once
	sending bool          // the goroutine lives
	stop    func()        // ends what it sends
}

// deliver sends entries, or takes them into the buffer. One error, or nil, for each.
func (c *Client) deliver(ctx context.Context, entries []entry) []error {
	if c.batch != nil && len(entries) > 0 {
		return c.batch.add(ctx, entries)
	}
	if c.kept != nil && len(entries) > 0 {
		return c.keep(entries)
	}
	if c.taking != nil && len(entries) > 0 {
		return c.take(ctx, entries)
	}
	if anyUnique(entries) {
		return c.sendMixed(ctx, entries)
	}
	b := c.buffer
	if b == nil || len(entries) == 0 {
		return c.send(ctx, entries)
	}
	if errs, taken := b.take(entries); taken {
		return errs
	}
	errs := c.send(ctx, entries)
	if ctx.Err() != nil { // the caller's end, not Redis's
		return errs
	}
	var held []entry
	var at []int
	for i, err := range errs {
		u, ok := errchain.As[*UnavailableError](err)
		if !ok {
			continue
		}
		b.noteAway(u)
		if !u.Maybe {
			held, at = append(held, entries[i]), append(at, i)
		}
	}
	taken, _ := b.take(held)
	for k, i := range at {
		errs[i] = nil
		if taken != nil {
			errs[i] = taken[k]
		}
	}
	return errs
}

// noteAway begins to buffer.
func (b *buffer) noteAway(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.away, b.cause = true, cause
	if !b.sending {
		b.sending = true
		go b.run()
	}
}

// take puts entries into the buffer if Redis is away; then the error of each that
// has no room.
func (b *buffer) take(entries []entry) (errs []error, taken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return same(ErrClosed, len(entries)), true
	}
	if !b.away {
		return nil, false
	}
	room := min(b.max-len(b.jobs)-len(b.batch), len(entries))
	b.jobs = append(b.jobs, entries[:room]...)
	if room == len(entries) {
		return nil, true
	}
	errs = make([]error, room, len(entries))
	return append(errs, same(&UnavailableError{Buffered: b.max, Err: b.cause, full: true}, len(entries)-room)...), true
}

func same(err error, n int) []error { return slices.Repeat([]error{err}, n) }

// run sends until nothing is left and Redis is back.
func (b *buffer) run() {
	// The buffer has a client of its own, which does not share a connection that hangs, repeats
	// nothing by itself, and has finite time-outs.
	rdb, err := redisconn.Derive(b.c.rdb, redisconn.Need{PoolSize: 1})
	if err != nil {
		rdb = b.c.rdb
	} else {
		end := sync.OnceFunc(func() { _ = rdb.Close() })
		defer end()
		b.mu.Lock()
		b.stop = end
		b.mu.Unlock()
	}
	for try := 0; ; {
		progress, over := b.round(rdb)
		if over {
			return
		}
		if progress {
			try = 0
			continue
		}
		d := jitter.Doubled(flushMin, flushMax, try)
		try++
		timer := time.NewTimer(d/2 + rand.N(d/2)) // half of it random: a fleet is not to come back in step
		select {
		case <-timer.C:
		case <-b.kick:
			timer.Stop()
		}
	}
}

// round makes one try. over: nothing is left to do, or it was closed.
func (b *buffer) round(rdb redis.UniversalClient) (progress, over bool) {
	b.mu.Lock()
	if b.closed || !b.away {
		b.sending = false
		b.mu.Unlock()
		return false, true
	}
	if len(b.batch) == 0 {
		b.cutLocked()
	}
	batch, number := b.batch, b.number
	b.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	var errs []error
	err := redisconn.Try(func() (err error) { // rdb may be the application's, with its hooks
		if len(batch) == 0 {
			return rdb.Ping(ctx).Err()
		}
		errs, err = b.send(ctx, rdb, batch, number)
		return err
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed { // meanwhile; what it held is reported
		b.sending = false
		return false, true
	}
	defer b.changed()
	if err != nil {
		b.cause = err
		return false, false
	}
	var refused []entry
	for i, err := range errs {
		if err != nil {
			refused, b.cause = append(refused, batch[i]), err
		}
	}
	b.batch = nil
	b.jobs = append(b.jobs, refused...) // behind the others: a queue that refuses does not concern them
	if len(b.jobs) == 0 {
		b.away, b.sending = false, false
		return false, true
	}
	return len(refused) < len(batch), false
}

// cutLocked takes the next batch off the jobs.
func (b *buffer) cutLocked() {
	n, size := 0, 0
	for n < len(b.jobs) && n < gatherMax && size <= gatherBytes {
		size += len(b.jobs[n].raw)
		n++
	}
	b.batch = slices.Clone(b.jobs[:n])
	b.jobs = slices.Delete(b.jobs, 0, n)
	b.number++
}

// send makes one try with a batch: an error if it is not known to have arrived,
// else the error of each job that was refused.
func (b *buffer) send(ctx context.Context, rdb redis.UniversalClient, batch []entry, number uint64) ([]error, error) {
	if one, ok := rdb.(*redis.Client); ok {
		return b.sendOnce(ctx, one, batch, number)
	}
	errs := b.c.send(ctx, batch)
	for _, err := range errs {
		if _, away := errchain.As[*UnavailableError](err); !away {
			continue
		}
		// Those that have arrived must not go again: the rest is another batch.
		var left []entry
		for i, err := range errs {
			if err != nil {
				left = append(left, batch[i])
			}
		}
		b.mu.Lock()
		b.batch = left
		b.mu.Unlock()
		return nil, err
	}
	return errs, nil
}

func (b *buffer) changed() {
	close(b.change)
	b.change = make(chan struct{})
}
