package client_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between a client and a server and plays their network.
type proxy struct {
	addr   string
	target atomic.Pointer[string] // of new connections
	cut    atomic.Bool            // drop the next reply, and its connection
	conns  atomic.Int64           // accepted so far

	mu   sync.Mutex
	open []net.Conn
	wg   sync.WaitGroup
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String()}
	p.target.Store(&target)
	p.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Add(1)
			out, err := net.Dial("tcp", *p.target.Load())
			if err != nil {
				_ = in.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, in, out)
			p.mu.Unlock()
			p.wg.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
			p.wg.Go(func() { p.replies(in, out) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.open {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) replies(in, out net.Conn) {
	defer func() { _ = in.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := out.Read(buf)
		if n > 0 {
			if p.cut.CompareAndSwap(true, false) {
				return
			}
			if _, err := in.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
