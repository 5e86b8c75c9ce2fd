package memredis

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// blocked gives a miniredis what it lacks of blocked moves: CLIENT ID and CLIENT UNBLOCK,
// and that a move ends with its connection.
type blocked struct {
	redis   *miniredis.Miniredis
	server  *server.Server
	scripts *scripts

	mu     sync.Mutex
	fault  string        // the reply to every command, unless it is empty
	paused chan struct{} // not nil: no command begins before it is closed
	dials  int
	moves  map[int]*move // by connection
}

// move is a BLMOVE under way. It runs on a peer of its own, which can be closed.
type move struct {
	peer *server.Peer
	over bool // unblocked
}

func newBlocked(m *miniredis.Miniredis) *blocked {
	return &blocked{redis: m, server: m.Server(), scripts: newScripts(m), moves: map[int]*move{}}
}

// dial makes a connection.
func (b *blocked) dial() *conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dials++
	return newConn(b, b.dials)
}

// carryOut carries a command out for a connection.
func (b *blocked) carryOut(c *conn, words []string) {
	p, args := c.peer, words[1:]
	b.mu.Lock()
	fault := b.fault
	b.mu.Unlock()
	if fault != "" {
		p.WriteError(fault)
		return
	}
	is := func(n int, want ...string) bool {
		if len(words) < n {
			return false
		}
		for i, word := range want {
			if !strings.EqualFold(words[i], word) {
				return false
			}
		}
		return true
	}
	switch {
	case is(1, "MULTI"):
		c.tx = true
	case is(1, "EXEC"), is(1, "DISCARD"):
		c.tx = false
	case c.tx:
	case is(1, "SELECT"):
		c.other = true
	case is(1, "SUBSCRIBE"), is(1, "PSUBSCRIBE"):
		c.subscribed = true
	case is(2, "SCRIPT", "FLUSH"):
		defer b.scripts.forget()
	case is(1, "EVALSHA") && !c.other && b.scripts.run(p, args):
		return
	case is(2, "CLIENT", "ID") && len(words) == 2:
		p.WriteInt(c.number)
		return
	case is(3, "CLIENT", "UNBLOCK"):
		to, _ := strconv.Atoi(words[2])
		p.WriteInt(map[bool]int{true: 1}[b.end(to)])
		return
	case is(1, "BLMOVE"):
		b.move(c, words)
		return
	}
	b.server.Dispatch(p, words)
}

// move carries out BLMOVE for a connection.
func (b *blocked) move(c *conn, words []string) {
	var reply bytes.Buffer
	m := &move{peer: server.NewPeer(bufio.NewWriter(&reply))}
	m.peer.Ctx = c.peer.Ctx // its database, and that it may
	b.mu.Lock()
	b.moves[c.number] = m
	b.mu.Unlock()
	if c.peer.Closed() { // since before it could be ended
		m.peer.Close()
	}
	b.server.Dispatch(m.peer, words)
	m.peer.Flush()
	b.mu.Lock()
	delete(b.moves, c.number)
	b.mu.Unlock()
	if reply.Len() == 0 && m.over {
		c.peer.WriteNull()
	} else {
		c.peer.WriteRaw(reply.String())
	}
}

// end ends the move of a connection, and reports whether there was one.
func (b *blocked) end(n int) bool {
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
	return m != nil
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

// pausedNow is nil unless commands wait; then it is closed when they may begin.
func (b *blocked) pausedNow() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paused
}
