package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Proxy stands between clients and a Redis and does to single commands, by rule or
// at random, what a bad network or a failing server does. A command that no fault names passes
// unchanged. It is safe for concurrent use, and works in a testing/synctest bubble
// before a Redis in memory.
type Proxy struct {
	tb   testing.TB
	to   redis.Options // of the Redis behind
	wg   sync.WaitGroup
	done chan struct{} // closed at the end of the test

	mu     sync.Mutex
	faults []*Fault
	chance *chance
	conns  map[*conn]bool
	killed bool
	paused chan struct{} // not nil: nothing passes until it is closed
	ended  bool
}

// chance is a fault by seed.
type chance struct {
	r       *rand.Rand
	p       float64
	effects []Effect
}

// NewProxy returns a proxy before the Redis that to leads to: the Options of a
// client, or of a testkit.Server. It ends with the test; in a bubble make it inside.
func NewProxy(tb testing.TB, to *redis.Options) *Proxy {
	tb.Helper()
	p := &Proxy{tb: tb, to: *to, conns: map[*conn]bool{}, done: make(chan struct{})}
	tb.Cleanup(p.end)
	return p
}

// Options returns the options of a client of the proxy. The client repeats no command unless the options
// given to the proxy say so: a fault is to be seen, not hidden.
func (p *Proxy) Options() *redis.Options {
	opts := p.to
	opts.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		if err := p.serve(ctx, far); err != nil {
			_ = near.Close()
			return nil, err
		}
		return near, nil
	}
	opts.MaxRetries = cmp.Or(opts.MaxRetries, -1)
	return &opts
}

// Client returns a client of the proxy, closed at the end of the test.
func (p *Proxy) Client() *redis.Client {
	c := redis.NewClient(p.Options())
	p.tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Listen opens a loopback port of the proxy for other processes and returns its
// address.
func (p *Proxy) Listen() string {
	p.tb.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		p.tb.Fatalf("proxy: %v", err)
	}
	p.tb.Cleanup(func() { _ = l.Close() })
	p.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			if p.serve(context.Background(), in) != nil {
				_ = in.Close()
			}
		}
	})
	return l.Addr().String()
}

// Add puts a copy of fault in force and returns it. Of several that fit a command
// the one that was added first happens.
func (p *Proxy) Add(fault Fault) *Fault {
	p.tb.Helper()
	if problem := fault.Do.problem(); problem != "" {
		p.tb.Fatalf("proxy: Do: %s", problem)
	}
	fault.proxy = p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, &fault)
	return &fault
}

// AtRandom makes one of effects happen to each command with this probability, drawn
// from seed; 0 ends it. Commands that come at the same time are drawn for in the
// order of their coming, which only one client at a time repeats.
func (p *Proxy) AtRandom(seed uint64, probability float64, effects ...Effect) {
	p.tb.Helper()
	for i, e := range effects {
		if problem := e.problem(); problem != "" {
			p.tb.Fatalf("proxy: effect %d: %s", i, problem)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.chance = nil
	if probability > 0 {
		p.chance = &chance{rand.New(rand.NewPCG(seed, seed)), probability, effects}
	}
}

// Cut ends every connection now. New ones may be made.
func (p *Proxy) Cut() {
	for _, c := range p.open() {
		c.close()
	}
}

// Kill ends every connection and refuses new ones until Restart, as a server does
// that is not running.
func (p *Proxy) Kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	p.Cut()
}

// Restart ends Kill.
func (p *Proxy) Restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = false
}

// Pause stops everything in both directions and closes nothing: a cable that was
// pulled. New connections are made and stay as mute. Resume ends it, and what was
// under way arrives.
func (p *Proxy) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused == nil {
		p.paused = make(chan struct{})
	}
}

// Resume ends Pause.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused != nil {
		close(p.paused)
		p.paused = nil
	}
}

// pick returns what is to happen to a command; the zero value is nothing.
func (p *Proxy) pick(words []string) Effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if !f.fits(words) {
			continue
		}
		f.seen++
		if f.seen <= f.Skip || f.Times > 0 && f.hits == f.Times {
			continue
		}
		f.hits++
		return f.Do
	}
	if p.chance != nil && p.chance.r.Float64() < p.chance.p {
		return p.chance.effects[p.chance.r.IntN(len(p.chance.effects))]
	}
	return Effect{}
}

// resumed waits while the proxy is paused.
func (p *Proxy) resumed() {
	for {
		p.mu.Lock()
		paused := p.paused
		p.mu.Unlock()
		if paused == nil {
			return
		}
		select {
		case <-paused:
		case <-p.done:
			return
		}
	}
}

func (p *Proxy) open() (conns []*conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		conns = append(conns, c)
	}
	return conns
}

func (p *Proxy) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	close(p.done)
	p.Cut()
	p.wg.Wait()
}

// dial connects to the Redis behind.
func (p *Proxy) dial(ctx context.Context) (net.Conn, error) {
	if p.to.Dialer != nil {
		return p.to.Dialer(ctx, p.to.Network, p.to.Addr)
	}
	d := net.Dialer{Timeout: cmp.Or(p.to.DialTimeout, 5*time.Second)}
	return d.DialContext(ctx, cmp.Or(p.to.Network, "tcp"), p.to.Addr)
}

// serve connects near, the end of a client's connection, to the Redis.
func (p *Proxy) serve(ctx context.Context, near net.Conn) error {
	p.mu.Lock()
	refuse := p.killed || p.ended
	p.mu.Unlock()
	if refuse {
		return p.refused()
	}
	far, err := p.dial(ctx)
	if err != nil {
		return err
	}
	c := &conn{proxy: p, near: near, far: far, arrived: make(chan struct{}, 1), gone: make(chan struct{})}
	p.mu.Lock()
	if p.killed || p.ended { // meanwhile
		p.mu.Unlock()
		_ = far.Close()
		return p.refused()
	}
	p.conns[c] = true
	p.wg.Add(3)
	p.mu.Unlock()
	go func() { defer p.wg.Done(); c.send() }()
	go func() { defer p.wg.Done(); c.receive() }()
	go func() { defer p.wg.Done(); c.answer() }()
	return nil
}

// refused is what dialling a port gives on which nobody listens.
func (p *Proxy) refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("%w by the test", syscall.ECONNREFUSED)}
}

func (p *Proxy) drop(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
