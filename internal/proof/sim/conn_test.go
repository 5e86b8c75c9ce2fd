package sim

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/troupehq/troupe/internal/test/redistest"
)

// conn is a client's connection to Redis. What is written waits in it until the
// world lets it through; there is no goroutine behind it, and no time passes in
// it. w.mu guards all of it.
type conn struct {
	w     *world
	owner *owner
	peer  *server.Peer // the connection at the server
	wake  chan struct{}

	id     int     // 0: none
	wait   *wait   // a BLMOVE that is open
	answer *answer // to one that was

	dialled  time.Time
	in       bytes.Buffer
	cmds     []*command // complete, not let through
	out      []byte     // replies, not read
	reply    *[]byte    // not nil: where the server's words go now
	deadline time.Time
	closed   bool // by the client
	cut      bool // by the world
	gone     bool // nothing more is to be had of it
}

// command is one command on its way.
type command struct {
	words   []string
	key     string // the same in every replay
	arrived time.Time
	from    time.Time // not let through before
}

func newConn(w *world, o *owner) *conn {
	c := &conn{w: w, owner: o, wake: make(chan struct{}, 1), dialled: time.Now()}
	c.peer = server.NewPeer(bufio.NewWriterSize((*serverSide)(c), 256))
	return c
}

// serverSide is where the server writes: replies, and what was published.
type serverSide conn

func (s *serverSide) Write(b []byte) (int, error) {
	c := (*conn)(s)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.reply != nil {
		*c.reply = append(*c.reply, b...)
	} else {
		c.give(b)
	}
	return len(b), nil
}

// give hands bytes to the client. w.mu is held.
func (c *conn) give(b []byte) {
	if c.cut || c.closed {
		return
	}
	c.out = append(c.out, b...)
	c.ring()
}

func (c *conn) ring() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// sever ends the connection as a network does. w.mu is held.
func (c *conn) sever() {
	c.cut = true
	c.ring()
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		c.w.mu.Lock()
		deadline := c.deadline
		switch {
		case c.closed:
			c.w.mu.Unlock()
			return 0, net.ErrClosed
		case len(c.out) > 0:
			n := copy(b, c.out)
			c.out = c.out[n:]
			c.w.mu.Unlock()
			return n, nil
		case c.cut:
			c.w.mu.Unlock()
			return 0, io.EOF
		}
		c.w.mu.Unlock()
		if deadline.IsZero() {
			<-c.wake
			continue
		}
		left := time.Until(deadline)
		if left <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
		t := time.NewTimer(left)
		select {
		case <-c.wake:
		case <-t.C:
		}
		t.Stop()
	}
}

func (c *conn) Write(b []byte) (int, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	if c.cut {
		return 0, io.ErrClosedPipe
	}
	c.in.Write(b)
	for c.in.Len() > 0 {
		whole := bytes.NewReader(c.in.Bytes())
		r := bufio.NewReaderSize(whole, 512)
		raw, words, err := redistest.ReadCommand(r)
		if err != nil {
			break // the rest is still to come
		}
		c.in.Next(len(raw))
		if c.begins(words) && len(c.cmds) == 0 {
			// No step: connections begin so, and go-redis holds a mutex meanwhile, on
			// which a bubble may not wait. Behind other commands its answer has its turn.
			c.give(c.asks(words))
			continue
		}
		c.cmds = append(c.cmds, &command{words: words, key: c.w.canonical(words), arrived: time.Now()})
	}
	c.w.note()
	return len(b), nil
}

func (c *conn) Close() error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.closed = true
	c.ring()
	c.w.note()
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if !t.IsZero() { // timers of one instant would fire in any order
		t = t.Add(time.Duration(c.id) * time.Microsecond)
	}
	c.deadline = t
	c.ring()
	return nil
}

func (c *conn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
func (c *conn) LocalAddr() net.Addr              { return addr{} }
func (c *conn) RemoteAddr() net.Addr             { return addr{} }

type addr struct{}

func (addr) Network() string { return "sim" }
func (addr) String() string  { return "sim" }
