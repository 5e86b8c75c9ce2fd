// Package proxy plays a slow network: it stands between clients and a server and
// hands on every byte after a delay, in both directions, however many bytes are
// under way. It adds latency and takes no bandwidth away.
package proxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// Proxy listens on a loopback port of its own.
type Proxy struct {
	Addr string

	target string
	delay  time.Duration // of each direction
	l      net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex
	open  map[net.Conn]bool
	ended bool
}

// Start starts a proxy in front of target.
func Start(ctx context.Context, target string, delay time.Duration) (*Proxy, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, delay: delay, l: l, open: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	return p, nil
}

// Close ends all connections.
func (p *Proxy) Close() {
	_ = p.l.Close()
	p.mu.Lock()
	p.ended = true
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(in) })
	}
}

// keep notes a connection for Close; false if that has happened.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.open[c] = true
	}
	return !p.ended
}

func (p *Proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
}

func (p *Proxy) serve(in net.Conn) {
	defer p.drop(in)
	if !p.keep(in) {
		return
	}
	out, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		return
	}
	defer p.drop(out)
	if !p.keep(out) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { Pipe(out, in, p.delay) })
	wg.Go(func() { Pipe(in, out, p.delay) })
	wg.Wait()
}

// chunk is what one read has brought, and when it may go on.
type chunk struct {
	bytes []byte
	due   time.Time
}

// Pipe copies from src to dst until one of them fails, each byte delayed by d
// and in order, and closes dst when src ends.
func Pipe(dst io.WriteCloser, src io.Reader, d time.Duration) {
	under := make(chan chunk, 4096) // on the wire; full is a window that is used up
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { _ = dst.Close() }()
		var err error
		for c := range under { // to the end even after an error, for the reader's sake
			if err != nil {
				continue
			}
			if wait := time.Until(c.due); wait > 0 {
				time.Sleep(wait)
			}
			_, err = dst.Write(c.bytes)
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			under <- chunk{bytes.Clone(buf[:n]), time.Now().Add(d)}
		}
		if err != nil {
			close(under)
			wg.Wait()
			return
		}
	}
}
