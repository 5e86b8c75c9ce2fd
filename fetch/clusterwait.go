package fetch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/troupehq/troupe/internal/keys"
)

const (
	clusterPeekTime = 5 * time.Second        // one peek; it takes nothing and may hang while nobody listens
	clusterPollTime = 500 * time.Millisecond // of a queue that cannot be peeked at for lack of memory
	clusterSickTime = 5 * time.Second        // how long a key of the wrong type is left alone
)

// clusterPeeks watches queues wherever they are: one connection and goroutine
// per queue, blocked in BLMOVE q q RIGHT RIGHT, which waits for an element and
// moves it to where it was. A peek that has been answered rests until the next
// wait; the others keep hanging, so that a wake-up costs one command.
type clusterPeeks struct {
	source *redis.ClusterClient
	names  []string
	sick   *sickQueues

	mu      sync.Mutex
	wires   *wires
	rdb     *redis.ClusterClient
	peekers []clusterPeeker
	paused  []int
	waiting int
	rung    chan struct{} // closed to wake all who wait
	err     error         // why, if for an error; written before the close
	closed  bool
	ended   chan struct{}
}

type clusterPeeker struct {
	start  chan struct{}
	busy   bool
	resume time.Time
}

func newClusterPeeks(source *redis.ClusterClient, names []string, sick *sickQueues) *clusterPeeks {
	return &clusterPeeks{source: source, names: names, sick: sick, rung: make(chan struct{}), ended: make(chan struct{})}
}

func (p *clusterPeeks) wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return errClosed
	}
	if p.peekers == nil {
		p.open()
	}
	p.waiting++
	now, rung := time.Now(), p.rung
	for i := range p.peekers {
		if k := &p.peekers[i]; !k.busy && !now.Before(k.resume) && !slices.Contains(p.paused, i) {
			k.busy = true
			k.start <- struct{}{}
		}
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.waiting--
		p.mu.Unlock()
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-rung:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.err
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause tells which queues are paused: what waits there must not end every wait.
func (p *clusterPeeks) pause(queues []int) {
	p.mu.Lock()
	p.paused = queues
	p.mu.Unlock()
}

// open makes the client and starts the goroutines.
func (p *clusterPeeks) open() {
	p.wires = newWires()
	opt := *p.source.Options()
	opt.Dialer = p.wires.dialer(clusterDialer(&opt))
	opt.PoolSize, opt.MinIdleConns, opt.MaxIdleConns, opt.MaxActiveConns = len(p.names)+1, 0, 0, 0
	opt.MaxRedirects = 3 // a peek takes nothing: it may be repeated
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	opt.PushNotificationProcessor = nil
	p.rdb = redis.NewClusterClient(&opt)
	p.peekers = make([]clusterPeeker, len(p.names))
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

// clusterDialer is the dialer of the options, or what go-redis makes of them.
func clusterDialer(opt *redis.ClusterOptions) dialFunc {
	if opt.Dialer != nil {
		return opt.Dialer
	}
	return redis.NewDialer(&redis.Options{DialTimeout: opt.DialTimeout, TLSConfig: opt.TLSConfig})
}

// peek blocks on queue i until it has work, fails, or nobody waits any more.
func (p *clusterPeeks) peek(i int) {
	queue := keys.Queue(p.names[i])
	for {
		err := p.rdb.BLMove(p.wires.ctx, queue, queue, "RIGHT", "RIGHT", clusterPeekTime).Err()
		if redis.HasErrorPrefix(err, "OOM") {
			err = nil
			select {
			case <-time.After(clusterPollTime):
			case <-p.wires.ctx.Done():
			}
		}
		if p.answered(i, err) {
			return
		}
	}
}

// answered reports the outcome of a peek and tells whether the peeker rests.
func (p *clusterPeeks) answered(i int, err error) (rest bool) {
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
		k.resume = time.Now().Add(clusterSickTime) // never ready; wakes nobody
		p.sick.report(p.names[i], err.Error())
	default:
		if err != nil {
			p.rdb.ReloadState(p.wires.ctx)
		}
		p.ring(err)
	}
	k.busy = false
	return true
}

func (p *clusterPeeks) ring(err error) {
	p.err = err
	close(p.rung)
	p.rung = make(chan struct{})
}

// close ends every peek and waits, within ctx, for the goroutines.
func (p *clusterPeeks) close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.ring(errClosed)
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
