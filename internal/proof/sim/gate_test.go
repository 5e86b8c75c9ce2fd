package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"
)

var errGone = errors.New("sim: the network is unreachable") // of a dead process, or Redis is down

// dial is the Dialer of an owner's clients.
func (w *world) dial(o *owner) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if o.dead || time.Now().Before(w.down) {
			return nil, &net.OpError{Op: "dial", Net: "sim", Err: errGone}
		}
		c := newConn(w, o)
		w.dials++
		c.id = w.dials
		w.conns = append(w.conns, c)
		return c, nil
	}
}

// orphans decides about commands whose connection their client has given up:
// the server may still find them in its socket.
func (w *world) orphans() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []*conn
	for _, c := range w.conns {
		if (c.closed || c.cut) && !c.gone {
			left = append(left, c)
		}
	}
	slices.SortStableFunc(left, compareConns)
	for _, c := range left {
		c.gone = true
		w.mu.Unlock()
		w.dispatch(c, []string{"UNSUBSCRIBE"}) // the server sees that it is closed
		w.mu.Lock()
		if len(c.cmds) > 0 && c.cmds[0].from.IsZero() && w.random.IntN(2) == 0 {
			c.cmds = nil
		}
		c.answer = nil
		if c.wait != nil && w.random.IntN(2) == 0 { // else it does not notice that the machine is gone
			c.wait = nil
		}
	}
}

// compareConns orders connections by what waits in them, and since when.
func compareConns(a, b *conn) int {
	if c := strings.Compare(a.owner.name, b.owner.name); c != 0 {
		return c
	}
	switch {
	case len(a.cmds) > 0 && len(b.cmds) > 0:
		return cmp.Or(strings.Compare(a.cmds[0].key, b.cmds[0].key), a.cmds[0].arrived.Compare(b.cmds[0].arrived))
	case len(a.cmds) > 0:
		return -1
	case len(b.cmds) > 0:
		return 1
	}
	return a.dialled.Compare(b.dialled)
}

// dispatch has Redis carry out one command of a connection.
func (w *world) dispatch(c *conn, words []string) []byte {
	var reply []byte
	w.mu.Lock()
	c.reply = &reply
	w.mu.Unlock()
	w.server.Dispatch(c.peer, words)
	c.peer.Flush()
	w.mu.Lock()
	c.reply = nil
	w.mu.Unlock()
	return reply
}

// exchange lets the first command of a connection through: with those that are
// one step with it, and with what the plan has for this step.
func (w *world) exchange(c *conn) {
	step := stepOf(c.cmds[0].words)
	f := w.fault(c.owner, jobSteps[step] || c.owner == w.client, waySteps[step] && !strings.HasPrefix(c.cmds[0].key, "lpush troupe:"),
		step == "settle" && slices.ContainsFunc(c.cmds[0].words, func(word string) bool { return word == "push" || word == "join" || word == "count" || word == "keep" }))
	if f == nil || c.gone && f.ofCommand() {
		w.carryOut(c, true)
		return
	}
	if !f.ofCommand() { // the command has its turn later, if it still has one
		return
	}
	cmd := c.cmds[0]
	switch f.Kind {
	case CutBefore:
		w.mu.Lock()
		c.cmds = nil
		c.sever()
		w.mu.Unlock()
	case CutAfter:
		w.carryOut(c, false)
		w.mu.Lock()
		c.sever()
		w.mu.Unlock()
	case Late:
		w.mu.Lock()
		cmd.from = time.Now().Add(f.For)
		c.sever()
		w.mu.Unlock()
	case Delay:
		w.mu.Lock()
		cmd.from = time.Now().Add(f.For)
		w.mu.Unlock()
	}
}

// carryOut applies the first command of c, with those of its transaction or
// those that only read, and gives the client the reply.
func (w *world) carryOut(c *conn, answer bool) {
	w.mu.Lock()
	n := 1
	first := c.cmds[0]
	switch {
	case strings.EqualFold(first.words[0], "multi"):
		for n < len(c.cmds) && !strings.EqualFold(c.cmds[n-1].words[0], "exec") {
			n++
		}
	case isRead(first.words):
		for n < len(c.cmds) && isRead(c.cmds[n].words) && !strings.EqualFold(c.cmds[n].words[0], "multi") {
			n++
		}
	}
	batch := c.cmds[:n]
	c.cmds = slices.Clone(c.cmds[n:])
	w.mu.Unlock()
	var all []byte
	multi := strings.EqualFold(first.words[0], "multi")
	if multi && time.Now().Before(w.full) && slices.ContainsFunc(batch, func(cmd *command) bool { return isNeedy(cmd.words) }) {
		all = append(all, "+OK\r\n"...)
		for range batch[2:] {
			all = append(all, outOfMemory...)
		}
		all, batch = append(all, "-EXECABORT Transaction discarded because of previous errors.\r\n"...), nil
	}
	for _, cmd := range batch {
		all = append(all, w.apply(c, cmd, multi)...)
	}
	w.serve()
	if jobs := jobsOf(all); jobs != "" {
		w.say("      -> %s", jobs)
	} else if bytes.HasPrefix(all, []byte("-")) {
		w.say("      -> %s", bytes.TrimSpace(all))
	}
	if answer {
		w.mu.Lock()
		c.give(all)
		w.mu.Unlock()
	}
}

// apply has Redis carry out one command, and checks the books.
func (w *world) apply(c *conn, cmd *command, multi bool) []byte {
	words := cmd.words
	if c.gone && strings.EqualFold(words[0], "subscribe") { // nobody would ever end it
		return nil
	}
	if time.Now().Before(w.loading) && !time.Now().Before(w.down) {
		return []byte("-LOADING Redis is loading the dataset in memory\r\n")
	}
	if strings.EqualFold(words[0], "blmove") && !multi { // else it is asked for as a right
		if time.Now().Before(w.full) {
			return []byte(outOfMemory)
		}
		return w.block(c, words)
	}
	if c.begins(words) {
		return c.asks(words)
	}
	if strings.EqualFold(words[0], "client") {
		return w.unblock(words)
	}
	if refusal := w.crossSlot(words); refusal != nil {
		return refusal
	}
	if w.bug != nil && w.bug.script != nil {
		words = w.bug.script(w, words)
	}
	w.book.late = c.gone || c.cut
	words, refusal := w.short(words)
	if refusal != nil {
		return refusal
	}
	reply := w.dispatch(c, w.load(words))
	if script(cmd.words) == "fence" {
		w.book.fenced(cmd.words, string(reply))
	}
	if isRead(cmd.words) {
		return reply
	}
	w.book.refused = bytes.HasPrefix(reply, []byte("-"))
	w.book.after(c.owner, cmd.words)
	w.save()
	return reply
}

// load gives Redis a script that it is to have when it is wanted.
func (w *world) load(words []string) []string {
	if !w.preloaded || !strings.EqualFold(words[0], "evalsha") || w.loaded[words[1]] {
		return words
	}
	w.loaded[words[1]] = true
	return append([]string{"EVAL", scripts()[words[1]].src}, words[2:]...)
}

// wait makes an act of a job's run and waits for its turn; false when the
// process has died, or ctx has ended (nil: never).
func (w *world) wait(o *owner, gone <-chan struct{}, ended <-chan struct{}, key string, from time.Time, do func()) bool {
	a := &act{owner: o, key: key, from: from, since: time.Now(), do: do, ready: make(chan struct{})}
	w.mu.Lock()
	if o.dead {
		w.mu.Unlock()
		return false
	}
	w.acts = append(w.acts, a)
	w.note()
	w.mu.Unlock()
	select {
	case <-a.ready:
	case <-gone:
	case <-ended:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a.off = true
	return a.let
}

// perform lets an act through.
func (w *world) perform(a *act) {
	if f := w.fault(a.owner, true, false, false); f != nil && !f.ofCommand() {
		return // it has its turn later, if it still has one
	}
	w.mu.Lock()
	if a.off {
		w.mu.Unlock()
		return
	}
	a.let = true
	w.mu.Unlock()
	a.do()
	close(a.ready)
}
