package fetchtest

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// fault is what happens to one request.
type fault int

const (
	cutBefore fault = iota // the request is not sent, the connection breaks
	cutAfter               // Redis carries it out, the reply is lost, the connection breaks
	late                   // the connection breaks for us; Redis gets the request when released
	freeze                 // Redis carries it out, or may have; the reply waits until the process is killed
)

func (f fault) String() string {
	return [...]string{"cut before the command", "cut after the command", "late command", "freeze"}[f]
}

// errFault is what a client sees of a broken connection, and silently retries
// if it is set to.
var errFault = io.EOF

// faults breaks one request of the connections made by its dialer. One request
// is one Write: go-redis flushes a command or pipeline at once.
type faults struct {
	requests atomic.Int64 // made so far

	mu      sync.Mutex
	armed   bool
	kind    fault
	skip    int // requests to let pass first
	fired   bool
	release []func() // sends late requests
	frozen  func()   // called in freeze
}

// arm breaks the request after the next skip ones.
func (f *faults) arm(kind fault, skip int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.kind, f.skip, f.fired = true, kind, skip, false
}

// disarm ends it and tells whether it has struck.
func (f *faults) disarm() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	return f.fired
}

// releaseLate sends what was held back and waits until Redis has answered.
func (f *faults) releaseLate() {
	f.mu.Lock()
	release := f.release
	f.release = nil
	f.mu.Unlock()
	for _, send := range release {
		send()
	}
}

// strike tells what happens to a request.
func (f *faults) strike() (fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed {
		return 0, false
	}
	if f.skip > 0 {
		f.skip--
		return 0, false
	}
	f.armed, f.fired = false, true
	return f.kind, true
}

func (f *faults) dialer(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &faultConn{Conn: conn, faults: f}, nil
}

// faultConn is used by one command at a time, as go-redis does.
type faultConn struct {
	net.Conn
	faults *faults
	struck bool // the reply of the last request is to be lost
	kind   fault
	kept   bool // the real connection lives on for a late request
}

func (c *faultConn) Write(b []byte) (int, error) {
	c.faults.requests.Add(1)
	kind, struck := c.faults.strike()
	if !struck {
		return c.Conn.Write(b)
	}
	switch kind {
	case cutBefore:
		_ = c.Conn.Close()
		return 0, errFault
	case late:
		request := append([]byte(nil), b...)
		c.kept = true
		c.faults.mu.Lock()
		c.faults.release = append(c.faults.release, func() {
			_, _ = c.Conn.Write(request)
			_, _ = c.Conn.Read(make([]byte, 1)) // the first byte of the reply: carried out
			_ = c.Conn.Close()
		})
		c.faults.mu.Unlock()
		return 0, errFault
	case cutAfter, freeze:
		c.struck, c.kind = true, kind // strikes at the reply
	}
	n, err := c.Conn.Write(b)
	if err != nil && kind == freeze { // somebody had cut it: freeze in the next request
		c.faults.arm(freeze, 0)
	}
	return n, err
}

func (c *faultConn) Read(b []byte) (int, error) {
	if !c.struck {
		return c.Conn.Read(b)
	}
	// Redis has carried it out; or somebody has cut the connection, as a fetcher does
	// with that of its wake-up when any database is flushed, while the request was on its
	// way. To be killed there is as good.
	n, err := c.Conn.Read(b)
	if c.kind == freeze {
		if bytes.HasPrefix(b[:n], []byte("-NOSCRIPT")) { // nothing ran: the next request is the one
			c.struck = false
			c.faults.arm(freeze, 0)
			return n, err
		}
		c.faults.frozen()
	}
	_ = c.Conn.Close()
	return 0, errFault
}

func (c *faultConn) Close() error {
	if c.kept {
		return nil
	}
	return c.Conn.Close()
}
