package testkit

import (
	"bufio"
	"net"
	"sync"
	"time"

	"github.com/troupehq/troupe/internal/resp"
)

// Effect is what a Fault does to one command. Those below are all there are.
type Effect func(x *exchange)

// exchange is one command on its way, and what becomes of it.
type exchange struct {
	before func()        // called before the command is handed on
	wait   time.Duration // before it is handed on
	copies int           // how often it is handed on
	reply  []replyFate   // what becomes of each reply; for an error of our own the only one
	text   string        // of that error
	cut    bool          // the connection ends instead of handing it on
	mute   bool          // from here on the client hears nothing, and is not heard
}

// replyFate is what becomes of one reply.
type replyFate int

const (
	replyPass   replyFate = iota
	replySkip             // the client never sees it
	replyCut              // the connection ends instead
	replyMute             // the client waits for it, and for all others, for ever
	replyForged           // an error of our own, without the server
)

// CutBefore ends the connection, and the command is not applied.
func CutBefore(x *exchange) { x.cut = true }

// CutAfter lets Redis apply the command and ends the connection before the reply:
// the client cannot know which of the two it was.
func CutAfter(x *exchange) { x.reply[0] = replyCut }

// Twice applies the command two times and returns the second reply, as a client
// does that repeats a command whose first reply was lost.
func Twice(x *exchange) { x.copies, x.reply = 2, []replyFate{replySkip, replyPass} }

// Swallow lets the command, and all that follows on its connection, vanish: not
// applied, not answered, nothing closed. A half-open connection.
func Swallow(x *exchange) { x.mute = true }

// MuteReply lets Redis apply the command; its reply, and all others of its
// connection, never come.
func MuteReply(x *exchange) { x.reply[0] = replyMute }

// Delay hands the command on after d.
func Delay(d time.Duration) Effect { return func(x *exchange) { x.wait = d } }

// Refuse answers with an error of Redis, "LOADING Redis is loading the dataset in
// memory", and does not apply the command.
func Refuse(text string) Effect {
	return func(x *exchange) { x.copies, x.reply, x.text = 0, []replyFate{replyForged}, text }
}

// Call calls f before the command is applied, which waits for it: to crash an
// actor, or kill a process, exactly there.
func Call(f func()) Effect { return func(x *exchange) { x.before = f } }

// way is one connection: what the client sends goes through send, what the
// server sends through receive into a queue without a bound, and from there
// through answer. So the server is never held up by a slow or deaf client.
type way struct {
	f         *Faults
	near, far net.Conn
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
	fate replyFate
	text string
}

func (w *way) close() {
	w.once.Do(func() {
		close(w.gone)
		_ = w.near.Close()
		_ = w.far.Close()
		w.f.drop(w)
	})
}

func (w *way) note() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// send hands on what the client sends.
func (w *way) send() {
	defer w.close()
	r := bufio.NewReaderSize(w.near, 64<<10)
	for {
		raw, words, err := resp.ReadCommand(r)
		if err != nil {
			return
		}
		w.f.thawed()
		x := exchange{copies: 1, reply: []replyFate{replyPass}}
		if effect := w.f.pick(words); effect != nil {
			effect(&x)
		}
		if x.before != nil {
			x.before()
		}
		if x.wait > 0 && !w.sleep(x.wait) || x.cut {
			return
		}
		if !w.expect(&x, words) {
			continue
		}
		for range x.copies {
			if _, err := w.far.Write(raw); err != nil {
				return
			}
		}
	}
}

// expect notes the replies of a command before it is handed on, and tells
// whether it is to be.
func (w *way) expect(x *exchange, words Command) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = w.mute || x.mute
	if w.mute {
		return false
	}
	if words.Is("subscribe") || words.Is("psubscribe") || words.Is("ssubscribe") || words.Is("monitor") {
		w.through = true
	}
	if !w.through {
		for _, fate := range x.reply {
			w.expected = append(w.expected, expected{fate, x.text})
		}
		w.note()
	}
	return x.copies > 0
}

func (w *way) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.gone:
		return false
	}
}

// receive queues what the server sends.
func (w *way) receive() {
	r := bufio.NewReaderSize(w.far, 64<<10)
	for {
		raw, err := resp.Read(r)
		w.mu.Lock()
		if err != nil {
			w.over = true
		} else {
			w.replies = append(w.replies, raw)
		}
		w.note()
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// answer gives the client its replies.
func (w *way) answer() {
	defer w.close()
	for {
		out, cut := w.next()
		if cut {
			return
		}
		if out == nil {
			select {
			case <-w.arrived:
				continue
			case <-w.gone:
				return
			}
		}
		w.f.thawed()
		if _, err := w.near.Write(out); err != nil {
			return
		}
	}
}

// next is the next that the client may see; nil if there is nothing yet. cut
// tells that the connection ends here.
func (w *way) next() (out []byte, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if len(w.expected) > 0 && w.expected[0].fate == replyForged {
			out = []byte("-" + w.expected[0].text + "\r\n")
			w.expected = w.expected[1:]
			return out, false
		}
		if len(w.replies) == 0 {
			return nil, w.over
		}
		reply := w.replies[0]
		w.replies = w.replies[1:]
		if w.mute {
			continue
		}
		if reply[0] == '>' || w.through || len(w.expected) == 0 {
			return reply, false
		}
		fate := w.expected[0].fate
		w.expected = w.expected[1:]
		switch fate {
		case replyPass:
			return reply, false
		case replyCut:
			return nil, true
		case replyMute:
			w.mute = true
		case replySkip, replyForged: // the latter was answered above
		}
	}
}
