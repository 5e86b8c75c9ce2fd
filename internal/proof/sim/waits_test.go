package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/keys"
)

// wait is a BLMOVE that Redis keeps open.
type wait struct {
	words []string
	since time.Time // who is blocked for the longest is served first
	until time.Time
}

// answer is the reply to a BLMOVE that was open: a step of its own.
type answer struct {
	key   string
	reply []byte
	jobs  bool
	since time.Time
	from  time.Time // not before
}

const nothing = "$-1\r\n"

// block has Redis carry out a BLMOVE, at once or when a job comes.
func (w *world) block(c *conn, words []string) []byte {
	seconds, err := strconv.ParseFloat(words[5], 64)
	if err != nil {
		return []byte("-ERR timeout is not a float or out of range\r\n")
	}
	if w.redis.Type(words[1]) == "list" {
		return w.moved(c, words)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.wait = &wait{words: words, since: time.Now(), until: time.Now().Add(time.Duration(seconds * float64(time.Second)))}
	return nil
}

// moved carries out the move of a BLMOVE.
func (w *world) moved(c *conn, words []string) []byte {
	if w.bug != nil && w.bug.script != nil {
		words = w.bug.script(w, words)
	}
	reply := w.dispatch(c, []string{"LMOVE", words[1], words[2], words[3], words[4]})
	switch {
	case reply[0] == '-':
		w.seen["move into a closed list"]++
	case c.gone || c.cut:
		w.seen["move for nobody"]++
	}
	w.book.after(c.owner, words)
	return reply
}

// serve gives what stands in the queues to who waits for it, in the same step as
// what has brought it there: as Redis does.
func (w *world) serve() {
	if time.Now().Before(w.loading) {
		return
	}
	for _, name := range queues {
		queue := keys.Queue(name)
		for w.redis.Type(queue) == "list" {
			c, p := w.first(queue)
			switch {
			case p != nil:
				p.pop(queue)
			case c != nil:
				words := c.wait.words
				w.mu.Lock()
				c.wait = nil
				w.mu.Unlock()
				reply := w.moved(c, words)
				w.say("      %s %s gets %s", c.owner.name, w.brief(words), jobsOf(reply))
				w.seen["move of an open wait"]++
				w.answer(c, words, reply)
			default:
				return
			}
		}
	}
}

// first is the connection, or the Ruby worker, that is blocked on a queue for the longest.
func (w *world) first(queue string) (first *conn, ruby *peer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var since time.Time
	for _, c := range w.conns {
		if c.wait != nil && c.wait.words[1] == queue && (first == nil || c.wait.since.Before(since)) {
			first, since = c, c.wait.since
		}
	}
	for _, p := range w.peers {
		if at := p.blocked(); !at.IsZero() && (first == nil && ruby == nil || at.Before(since)) {
			first, ruby, since = nil, p, at
		}
	}
	return first, ruby
}

// answer lets the client have a reply when it is its turn.
func (w *world) answer(c *conn, words []string, reply []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.gone {
		return
	}
	c.answer = &answer{key: "answer of " + w.brief(words), reply: reply, jobs: jobsOf(reply) != "", since: time.Now()}
}

func (w *world) brief(words []string) string { return "blmove " + words[1] }

// expire ends waits whose time is over.
func (w *world) expire(c *conn) {
	w.mu.Lock()
	words := c.wait.words
	c.wait = nil
	w.mu.Unlock()
	w.answer(c, words, []byte(nothing))
}

// deliver lets an answer through, with what the plan has for this step.
func (w *world) deliver(c *conn) {
	a := c.answer
	f := w.fault(c.owner, a.jobs, false, false)
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.answer != a || f != nil && !f.ofCommand() {
		return // it has its turn later, if it still has one
	}
	if f != nil && f.Kind == Delay {
		a.from = time.Now().Add(f.For)
		if a.jobs {
			w.seen["answer of a wait, late"]++
		}
		return
	}
	c.answer = nil
	if f != nil {
		if a.jobs {
			w.seen["answer of a wait, lost"]++
		}
		c.sever()
		return
	}
	if a.jobs {
		w.say("      -> %s", jobsOf(a.reply))
	}
	c.give(a.reply)
}

// begins reports whether a connection may begin with a command.
func (c *conn) begins(words []string) bool {
	return strings.EqualFold(words[0], "hello") || c.w.plan.Cluster && aboutNode(words) ||
		strings.EqualFold(words[0], "client") && !strings.EqualFold(words[1], "unblock")
}

// asks answers what a connection begins with.
func (c *conn) asks(words []string) []byte {
	if c.w.plan.Cluster && aboutNode(words) {
		return node(words)
	}
	if len(words) == 2 && strings.EqualFold(words[1], "id") && !c.w.plan.NoClient {
		return fmt.Appendf(nil, ":%d\r\n", c.id)
	}
	return []byte("-ERR unknown command\r\n")
}

// unblock carries out CLIENT UNBLOCK.
func (w *world) unblock(words []string) []byte {
	id, _ := strconv.Atoi(words[2])
	w.mu.Lock()
	var to *conn
	for _, c := range w.conns {
		if c.id == id && c.wait != nil {
			to = c
		}
	}
	w.mu.Unlock()
	if to == nil {
		return []byte(":0\r\n")
	}
	w.seen["wait ended by its client"]++
	w.expire(to)
	return []byte(":1\r\n")
}
