package memredis

import (
	"bufio"
	"bytes"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// blocked gives a miniredis what it lacks of blocked moves: CLIENT ID and CLIENT UNBLOCK,
// and that a move ends with its connection.
type blocked struct {
	redis *miniredis.Miniredis

	mu     sync.Mutex
	fault  string        // the reply to every command, unless it is empty
	paused chan struct{} // not nil: no command begins before it is closed
	dials  int
	number map[*server.Peer]int  // of the connections
	tx     map[*server.Peer]bool // connections in a transaction
	moves  map[int]*move         // by connection
}

// move is a BLMOVE under way. It runs on a peer of its own, which can be closed.
type move struct {
	peer *server.Peer
	over bool // unblocked
}

// hello is the first command of a connection: it tells the server its number.
const hello = "MEMREDIS.CONNECTION"

// watch begins to serve the connections of m; each is to be made by dial.
func watch(m *miniredis.Miniredis) *blocked {
	return &blocked{redis: m, number: map[*server.Peer]int{}, tx: map[*server.Peer]bool{}, moves: map[int]*move{}}
}

// dial makes a connection, and tells what to do when it has been closed.
func (b *blocked) dial() (net.Conn, func(), error) {
	c, err := b.redis.Dial()
	if err != nil {
		return nil, nil, err
	}
	b.mu.Lock()
	if b.dials == 0 {
		b.redis.Server().SetPreHook(b.hook)
	}
	b.dials++
	n := b.dials
	b.mu.Unlock()
	text := strconv.Itoa(n)
	if _, err := c.Write([]byte("*2\r\n$" + strconv.Itoa(len(hello)) + "\r\n" + hello + "\r\n$" + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n")); err != nil {
		return nil, nil, err
	}
	if _, err := c.Read(make([]byte, len("+OK\r\n"))); err != nil {
		return nil, nil, err
	}
	return c, func() { b.end(n) }, nil
}

// hook serves what miniredis does not.
func (b *blocked) hook(p *server.Peer, cmd string, args ...string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for paused := b.paused; paused != nil && cmd != hello; paused = b.paused {
		b.mu.Unlock()
		<-paused
		b.mu.Lock()
	}
	n, known := b.number[p]
	switch {
	case cmd == hello && len(args) == 1:
		n, _ := strconv.Atoi(args[0])
		b.number[p] = n
		p.OnDisconnect(func() { b.forget(p) })
		p.WriteOK()
		return true
	case b.fault != "":
		p.WriteError(b.fault)
		return true
	case !known:
		return false
	case cmd == "MULTI":
		b.tx[p] = true
	case cmd == "EXEC", cmd == "DISCARD":
		delete(b.tx, p)
	case b.tx[p]:
	case cmd == "CLIENT" && len(args) == 1 && strings.EqualFold(args[0], "id"):
		p.WriteInt(n)
		return true
	case cmd == "CLIENT" && len(args) > 1 && strings.EqualFold(args[0], "unblock"):
		to, _ := strconv.Atoi(args[1])
		was := b.moves[to] != nil
		b.mu.Unlock()
		b.end(to)
		b.mu.Lock()
		p.WriteInt(map[bool]int{true: 1}[was])
		return true
	case cmd == "BLMOVE":
		b.mu.Unlock()
		b.move(p, n, args)
		b.mu.Lock()
		return true
	}
	return false
}

// move carries out BLMOVE for a connection.
func (b *blocked) move(p *server.Peer, n int, args []string) {
	var reply bytes.Buffer
	m := &move{peer: server.NewPeer(bufio.NewWriter(&reply))}
	m.peer.Ctx = p.Ctx // its database, and that it may
	b.mu.Lock()
	b.moves[n] = m
	b.mu.Unlock()
	b.redis.Server().Dispatch(m.peer, append([]string{"BLMOVE"}, args...))
	m.peer.Flush()
	b.mu.Lock()
	delete(b.moves, n)
	b.mu.Unlock()
	if reply.Len() == 0 && m.over {
		p.WriteNull()
	} else {
		p.WriteRaw(reply.String())
	}
}

// end ends the move of a connection, if there is one.
func (b *blocked) end(n int) {
	b.mu.Lock()
	m := b.moves[n]
	if m != nil {
		m.over = true
		m.peer.Close()
	}
	b.mu.Unlock()
	if m != nil {
		b.redis.Del("") // it wakes all that are blocked
	}
}

// refuse has every command answered by an error, unless it is empty.
func (b *blocked) refuse(fault string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = fault
}

// pause keeps commands from beginning until resume.
func (b *blocked) pause() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paused == nil {
		b.paused = make(chan struct{})
	}
}

func (b *blocked) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paused != nil {
		close(b.paused)
		b.paused = nil
	}
}

func (b *blocked) forget(p *server.Peer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.number, p)
	delete(b.tx, p)
}

// watched is a connection that ends its move when it is closed.
type watched struct {
	net.Conn
	end func()
}

func (w *watched) Close() error {
	err := w.Conn.Close()
	w.end()
	return err
}
