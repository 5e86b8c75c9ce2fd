package memredis

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// conn is a connection, as its client has it. A command is carried out where it is
// written, so that most of them wake no other goroutine; what may block gets one. As in a
// socket there is room for what the client has not read yet.
type conn struct {
	b      *blocked
	number int
	peer   *server.Peer // writes to answer

	// For the goroutine that serves:
	tx         bool // in a transaction
	other      bool // of another database
	subscribed bool

	mu       sync.Mutex
	in       []byte // what is no whole command yet
	busy     bool   // somebody serves
	out      []byte // what the client has not read
	closed   bool
	deadline time.Time     // of reads
	news     chan struct{} // holds one when there is something for a read
}

func newConn(b *blocked, number int) *conn {
	c := &conn{b: b, number: number, news: make(chan struct{}, 1)}
	c.peer = server.NewPeer(bufio.NewWriter(answer{c}))
	return c
}

// answer is the writer of the replies on a connection.
type answer struct{ c *conn }

func (a answer) Write(p []byte) (int, error) {
	a.c.change(func() {
		if !a.c.closed {
			a.c.out = append(a.c.out, p...)
		}
	})
	return len(p), nil
}

// change is for what a read may wait for.
func (c *conn) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	select {
	case c.news <- struct{}{}:
	default:
	}
}

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, io.ErrClosedPipe
	}
	c.in = append(c.in, p...)
	busy := c.busy
	c.busy = true
	c.mu.Unlock()
	if !busy {
		c.serve()
	}
	return len(p), nil
}

// serve carries out commands until there are no more, or a goroutine of its own does. The
// last to do so ends what a closed connection has at the server.
func (c *conn) serve() {
	for {
		words, over := c.next()
		if over && c.subscribed {
			c.b.server.Dispatch(c.peer, []string{"UNSUBSCRIBE"})
			c.b.server.Dispatch(c.peer, []string{"PUNSUBSCRIBE"})
		}
		if words == nil {
			return
		}
		paused := c.b.pausedNow()
		if paused == nil && !mayBlock(words[0]) {
			c.carryOut(words)
			continue
		}
		go func() {
			if paused != nil {
				<-paused
			}
			c.carryOut(words)
			c.serve()
		}()
		return
	}
}

// mayBlock reports whether a command may wait for something.
func mayBlock(command string) bool {
	return strings.HasPrefix(strings.ToUpper(command), "B") || strings.HasPrefix(strings.ToUpper(command), "XREAD")
}

func (c *conn) carryOut(words []string) {
	c.b.carryOut(c, words)
	c.peer.Flush()
	if c.peer.Closed() {
		c.change(func() { c.closed = true })
	}
}

// next returns the next command. If there is none, nobody serves from then on; over says
// that there will be none, and says it once.
func (c *conn) next() (words []string, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, true
	}
	words, c.in = command(c.in)
	c.busy = words != nil
	return words, false
}

// command cuts the first command off in; it is nil while it is not whole.
func command(in []byte) (words []string, rest []byte) {
	rest = in
	number := func(kind byte) (int, bool) {
		line, after, ok := bytes.Cut(rest, []byte("\r\n"))
		if !ok || len(line) == 0 || line[0] != kind {
			return 0, false
		}
		n, err := strconv.Atoi(string(line[1:]))
		rest = after
		return n, err == nil
	}
	n, ok := number('*')
	for ok && len(words) < n {
		size := 0
		if size, ok = number('$'); ok {
			if ok = len(rest) >= size+2; ok {
				words, rest = append(words, string(rest[:size])), rest[size+2:]
			}
		}
	}
	if !ok {
		return nil, in
	}
	return words, slices.Clip(rest)
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		if len(c.out) > 0 {
			defer c.mu.Unlock()
			n := copy(p, c.out)
			c.out = c.out[n:]
			return n, nil
		}
		closed, deadline := c.closed, c.deadline
		c.mu.Unlock()
		if closed {
			return 0, io.ErrClosedPipe
		}
		if err := c.await(deadline); err != nil {
			return 0, err
		}
	}
}

// await waits for news until the deadline, if there is one.
func (c *conn) await(deadline time.Time) error {
	var late <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-c.news:
		return nil
	case <-late:
		return os.ErrDeadlineExceeded
	}
}

// Close closes the connection, and ends what is blocked on it.
func (c *conn) Close() error {
	busy := false
	c.change(func() {
		busy = c.busy
		c.closed, c.busy = true, true
	})
	c.peer.Close()
	if busy {
		c.b.end(c.number)
		c.b.redis.Del("") // it wakes all that are blocked
	} else {
		c.serve()
	}
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.change(func() { c.deadline = t })
	return nil
}

func (c *conn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(time.Time) error { return nil } // a write does not wait
func (c *conn) LocalAddr() net.Addr              { return address{} }
func (c *conn) RemoteAddr() net.Addr             { return address{} }

type address struct{}

func (address) Network() string { return "memory" }
func (address) String() string  { return "memory" }
