package fetch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

const (
	// peekTime is how long one peek blocks in Redis. It outlives the Wait that
	// began it: a peek takes nothing, so it may hang while nobody listens.
	peekTime = 5 * time.Second

	// pollTime is the pace of looks at a queue that cannot be peeked at because
	// Redis is out of memory: fetching still works then, and makes room.
	pollTime = 500 * time.Millisecond

	// sickTime is how long a queue with a key of the wrong type is left alone.
	sickTime = 5 * time.Second
)

// Wait blocks until a queue may have work; see Fetcher.
func (f *reliable) Wait(ctx context.Context, d time.Duration) error {
	if f.laps != nil {
		return f.laps.wait(ctx, min(d, lookTime)) // the look that follows finds out what is paused, and how many slots are free
	}
	err := f.bell.wait(ctx, d)
	if errors.Is(err, errNoEars) {
		return f.peeks.wait(ctx, min(d, lookTime)) // a look, too, for queues that were paused
	}
	return err
}

// peeks watches queues where the doorbell cannot: by blocking peeks, BLMOVE q q
// RIGHT RIGHT. Such a command waits for an element and moves it to where it was.
// One connection and one goroutine per queue, made by the first wait. A peek that
// has been answered rests until the next wait; the others keep hanging, so that
// a wake-up costs one command.
type peeks struct {
	dial  func(*wires) peekClient
	names []string
	sick  *sickQueues

	mu      sync.Mutex
	wires   *wires
	rdb     peekClient
	peekers []peeker
	paused  []int // queues that the last look found paused; not peeked at
	waiting int
	bell    *bell
	closed  bool
	ended   chan struct{} // after close: every goroutine is gone
}

// peeker is the state of one queue's goroutine.
type peeker struct {
	start  chan struct{}
	busy   bool
	resume time.Time // not to be started before
}

// bell is rung once, for all who wait.
type bell struct {
	rung chan struct{}
	err  error
}

func newBell() *bell { return &bell{rung: make(chan struct{})} }

// await blocks until the bell rings or d has passed.
func (b *bell) await(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-b.rung:
		return b.err
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// peekClient has a connection per queue.
type peekClient interface {
	BLMove(ctx context.Context, from, to, take, put string, d time.Duration) *redis.StringCmd
	Close() error
}

func newPeeks(dial func(*wires) peekClient, names []string, sick *sickQueues) *peeks {
	return &peeks{dial: dial, names: names, sick: sick, bell: newBell(), ended: make(chan struct{})}
}

func (p *peeks) wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	b, err := p.begin()
	if err != nil {
		return err
	}
	defer p.end()
	return b.await(ctx, d)
}

// begin starts every resting peek and returns the bell that they will ring. A
// bell rung before does not count: what it announced is seen again at once.
func (p *peeks) begin() (*bell, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if p.peekers == nil {
		p.open()
	}
	p.waiting++
	now := time.Now()
	for i := range p.peekers {
		if k := &p.peekers[i]; !k.busy && !now.Before(k.resume) && !slices.Contains(p.paused, i) {
			k.busy = true
			k.start <- struct{}{}
		}
	}
	return p.bell, nil
}

// pause tells which queues are paused. A job that waits there must not end every
// Wait; the look that follows a Wait finds out when they no longer are.
func (p *peeks) pause(queues []int) {
	p.mu.Lock()
	p.paused = queues
	p.mu.Unlock()
}

func (p *peeks) end() {
	p.mu.Lock()
	p.waiting--
	p.mu.Unlock()
}

// open makes the connections' client and starts the goroutines.
func (p *peeks) open() {
	p.wires = newWires()
	p.rdb = p.dial(p.wires)
	p.peekers = make([]peeker, len(p.names))
	var all sync.WaitGroup
	for i := range p.peekers {
		start := make(chan struct{}, 1)
		p.peekers[i].start = start
		all.Go(func() {
			for range start {
				p.peek(i)
			}
		})
	}
	go func() {
		all.Wait()
		_ = p.rdb.Close()
		p.wires.wait()
		close(p.ended)
	}()
}

// peek blocks on queue i until it has work, fails, or nobody waits any more.
func (p *peeks) peek(i int) {
	queue := keys.Queue(p.names[i])
	for {
		err := p.rdb.BLMove(p.wires.ctx, queue, queue, "RIGHT", "RIGHT", peekTime).Err()
		if redis.HasErrorPrefix(err, "OOM") {
			err = nil
			select {
			case <-time.After(pollTime):
			case <-p.wires.ctx.Done():
			}
		}
		if p.answered(i, err) {
			return
		}
	}
}

// answered reports the outcome of a peek and tells whether the peeker rests.
func (p *peeks) answered(i int, err error) (rest bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := &p.peekers[i]
	switch {
	case p.closed:
	case errors.Is(err, redis.Nil):
		if p.waiting > 0 {
			return false
		}
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		k.resume = time.Now().Add(sickTime) // never ready; rings nobody
		p.sick.report(p.names[i], err.Error())
	default:
		p.bell.err = err
		close(p.bell.rung)
		p.bell = newBell()
	}
	k.busy = false
	return true
}

// close ends every peek and waits, within ctx, for the goroutines.
func (p *peeks) close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.bell.err = errClosed
		close(p.bell.rung)
		if p.peekers == nil {
			close(p.ended)
		} else {
			for i := range p.peekers {
				close(p.peekers[i].start)
			}
			p.wires.cut()
		}
	}
	p.mu.Unlock()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
