package chaos

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe/internal/test/redistest"
)

// conn is one connection. What the client sends goes through send. What the server
// sends goes through receive into a queue without a bound, and from there through
// answer, so that a slow client never holds the server up.
type conn struct {
	proxy     *Proxy
	near, far net.Conn
	multi     transaction // of send only
	once      sync.Once
	gone      chan struct{}
	arrived   chan struct{} // something is new in the fields below

	mu       sync.Mutex
	expected []expected // replies that the client waits for, in order
	replies  [][]byte
	through  bool // a subscription: replies come unasked
	mute     bool
	over     bool // the server has closed
}

type expected struct {
	mode replyMode
	text string
}

// transaction is the MULTI that a connection is in, if it is in one.
type transaction struct {
	open    bool
	refused bool // one of its commands
}

var discard = []byte("*1\r\n$7\r\nDISCARD\r\n")

// next follows a command and what becomes of it. As a server does, it lets MULTI pass and
// ends it with an error if something of it was refused: discard tells that DISCARD is to be
// sent in place of the EXEC. A command between MULTI and EXEC is not applied twice: a client
// repeats the whole.
func (t *transaction) next(command string, x *exchange) (discard bool) {
	forged := x.reply[0] == replyForged
	pass := func() { x.copies, x.reply = 1, []replyMode{replyPass} }
	switch {
	case command == "multi":
		*t = transaction{open: true, refused: forged}
		if forged {
			pass()
		}
	case !t.open:
	case command == "discard":
		*t = transaction{}
		if forged {
			pass()
		}
	case command == "exec":
		lost := x.reply[0] == replyCut || x.reply[0] == replyMute
		if discard = forged || t.refused; discard && !lost {
			x.copies, x.reply, x.text = 1, []replyMode{replySkip, replyForged}, "EXECABORT Transaction discarded because of previous errors."
		}
		*t = transaction{}
	case forged:
		t.refused = true
	case x.copies > 1:
		pass()
	}
	return discard
}

func (c *conn) close() {
	c.once.Do(func() {
		close(c.gone)
		_ = c.near.Close()
		_ = c.far.Close()
		c.proxy.drop(c)
	})
}

func (c *conn) note() {
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}

// send hands on what the client sends.
func (c *conn) send() {
	defer c.close()
	r := bufio.NewReaderSize(c.near, 64<<10)
	for {
		raw, words, err := redistest.ReadCommand(r)
		if err != nil {
			return
		}
		c.proxy.resumed()
		x := c.proxy.pick(words).exchange()
		if c.multi.next(strings.ToLower(words[0]), &x) {
			raw = discard
		}
		if x.before != nil {
			x.before()
		}
		if x.wait > 0 && !c.sleep(x.wait) || x.cut {
			return
		}
		if !c.expect(&x, words) {
			continue
		}
		for range x.copies {
			if _, err := c.far.Write(raw); err != nil {
				return
			}
		}
	}
}

// expect notes the replies of a command before it is handed on, and tells
// whether it is to be.
func (c *conn) expect(x *exchange, words []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = c.mute || x.mute
	if c.mute {
		return false
	}
	switch strings.ToLower(words[0]) {
	case "subscribe", "psubscribe", "ssubscribe", "monitor":
		c.through = c.through || x.copies > 0 // else it is refused
	}
	if !c.through {
		for _, mode := range x.reply {
			c.expected = append(c.expected, expected{mode, x.text})
		}
		c.note()
	}
	return x.copies > 0
}

func (c *conn) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.gone:
		return false
	}
}

// receive queues what the server sends.
func (c *conn) receive() {
	r := bufio.NewReaderSize(c.far, 64<<10)
	for {
		raw, err := redistest.ReadReply(r)
		c.mu.Lock()
		if err != nil {
			c.over = true
		} else {
			c.replies = append(c.replies, raw)
		}
		c.note()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// answer gives the client its replies.
func (c *conn) answer() {
	defer c.close()
	for {
		out, cut := c.next()
		if cut {
			return
		}
		if out == nil {
			select {
			case <-c.arrived:
				continue
			case <-c.gone:
				return
			}
		}
		c.proxy.resumed()
		if _, err := c.near.Write(out); err != nil {
			return
		}
	}
}

// next is the next that the client may see; nil if there is nothing yet. cut
// tells that the connection ends here.
func (c *conn) next() (out []byte, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if len(c.expected) > 0 && c.expected[0].mode == replyForged {
			out = []byte("-" + c.expected[0].text + "\r\n")
			c.expected = c.expected[1:]
			return out, false
		}
		if len(c.replies) == 0 {
			return nil, c.over
		}
		reply := c.replies[0]
		c.replies = c.replies[1:]
		if c.mute {
			continue
		}
		if reply[0] == '>' || c.through || len(c.expected) == 0 {
			return reply, false
		}
		mode := c.expected[0].mode
		c.expected = c.expected[1:]
		switch mode {
		case replyPass:
			return reply, false
		case replyCut:
			return nil, true
		case replyMute:
			c.mute = true
		case replySkip, replyForged: // the latter was answered above
		}
	}
}
