package claimmodel

import (
	"slices"
	"strings"
)

// state is where a command is.
type state uint8

const (
	sent     state = iota // on its way to the server
	blocked               // a blocked move that waits at the server
	answered              // the reply is on its way back
)

// msg is a command on its way, and then its reply.
type msg struct {
	name   string
	o      *owner // who sent it; nil means a Ruby process
	life   int    // the incarnation that sent it
	m      *Master
	script func(*call) Reply
	got    func(Reply) // nil: the sender is dead or has given up
	wait   *wait       // of a blocked move
	jobs   []string    // what it may leave in two places if it breaks off
	again  bool        // it may be sent twice by a client below us
	state  state
	reply  Reply
}

// wait is a blocked move (BLMOVE), or a BRPOP of a Ruby process.
type wait struct {
	msg   *msg
	queue string // key
	to    string // key; "" of BRPOP
	until int
	epoch int // of the connection
}

// send puts a command on the wire.
func (w *World) send(x *msg) *msg {
	if x.o != nil {
		x.life = x.o.life
	}
	w.wire = append(w.wire, x)
	if w.trace != nil {
		w.tracef("%s sends %s", x.who(), x.name)
	}
	return x
}

func (x *msg) who() string {
	if x.o == nil {
		return "ruby"
	}
	return x.o.name()
}

// run runs a script, and serves who waits for what it pushed. left is the number
// of commands after which it breaks off, negative for never.
func (w *World) run(m *Master, left int, script func(*call) Reply) (r Reply) {
	c := &call{m: m, left: left}
	func() {
		defer func() {
			if e := recover(); e != nil {
				if _, ok := e.(brokenOff); !ok {
					panic(e)
				}
				r = Reply{Verdict: Failed}
			}
		}()
		r = script(c)
	}()
	if c.refused {
		w.fail("out of memory: Redis has refused a script, so nothing can be settled")
	}
	w.locks(m)
	w.serve(m)
	w.givenBack = nil
	return r
}

// serve gives jobs to those who wait for them: who blocked first is first.
func (w *World) serve(m *Master) {
	for i := 0; i < len(m.waits); {
		if w.serveOne(m, m.waits[i]) {
			m.waits = slices.Delete(m.waits, i, i+1)
		} else {
			i++
		}
	}
}

// serveOne reports whether the wait is over.
func (w *World) serveOne(m *Master, x *wait) bool {
	q := m.find(x.queue)
	if q == nil || q.kind != aList || m.bad[x.queue] {
		if x.until > w.now {
			return false
		}
		x.msg.answer(w, Reply{Verdict: OK})
		return true
	}
	c := &call{m: m, left: -1, wrote: true}
	if x.to == "" {
		job := q.list[len(q.list)-1]
		c.lrem(x.queue, job)  //nolint:errcheck // it is there
		w.acc.finished[job]++ // what Ruby has popped is Ruby's
		w.acc.elsewhere[job] = true
		x.msg.answer(w, Reply{Verdict: OK, Jobs: []string{job}})
		return true
	}
	job, err := c.take(x.queue, x.to)
	if err != nil {
		x.msg.answer(w, Reply{Verdict: Failed})
		return true
	}
	w.served(x, job)
	x.msg.answer(w, Reply{Verdict: OK, Jobs: []string{job}})
	return true
}

func (x *msg) answer(w *World, r Reply) {
	if w.trace != nil {
		w.tracef("redis: %s of %s → %s", x.name, x.who(), describe(r))
	}
	x.state, x.reply = answered, r
}

// arrive executes a command at the server.
func (w *World) arrive(x *msg) {
	if x.wait != nil {
		w.block(x)
		return
	}
	left := -1
	if w.faults.breakOff && x.o != nil && w.pick(12) == 1 {
		left = 1 + w.pick(12)
	}
	if x.again && w.faults.duplicates && w.pick(8) == 1 {
		duplicate := *x
		duplicate.got, duplicate.again = nil, false
		w.wire = append(w.wire, &duplicate)
		w.note("duplicate")
	}
	x.answer(w, w.run(x.m, left, x.script))
	if left >= 0 && x.reply.Verdict == Failed {
		w.note("broken off")
		for _, job := range x.jobs {
			w.acc.allow(job, 1, 1)
			w.acc.half[job] = true
		}
		if strings.HasPrefix(x.name, "refuse") { // nobody knows of which
			for job := range w.acc.pushed {
				w.acc.allow(job, 1, 1)
			}
		}
	}
}

// block executes a blocked move.
func (w *World) block(x *msg) {
	switch {
	case x.wait.epoch != x.m.epoch && !w.rules.NamedOnConnection:
		x.answer(w, Reply{Verdict: Lost})
	case x.m.full && x.wait.to != "":
		x.answer(w, Reply{Verdict: Failed})
	case x.m.bad[x.wait.queue] || x.wait.to != "" && w.isString(x.m, x.wait.to):
		x.answer(w, Reply{Verdict: Failed})
	default:
		x.wait.until = w.now + third - w.pick(2)
		x.state = blocked
		x.m.waits = append(x.m.waits, x.wait)
		if w.serveOne(x.m, x.wait) {
			x.m.waits = x.m.waits[:len(x.m.waits)-1]
		}
	}
}

func (w *World) isString(m *Master, key string) bool {
	v := m.find(key)
	return v != nil && v.kind == aString
}

// deliver brings a reply to who waits for it.
func (w *World) deliver(x *msg) {
	w.forget(x)
	if x.got == nil || x.o != nil && (!x.o.alive || x.o.life != x.life) {
		return
	}
	if x.o != nil && x.o.thin && x.reply.carries(w.big) {
		x.reply = Reply{Verdict: Lost} // larger than what comes within a time-out
		w.note("reply too large")
	}
	if w.trace != nil {
		w.tracef("%s reads the reply to %s: %s", x.who(), x.name, describe(x.reply))
	}
	x.got(x.reply)
}

func (r Reply) carries(job string) bool {
	if job == "" {
		return false
	}
	for _, c := range r.Claims {
		if count(c.Jobs, job) > 0 {
			return true
		}
	}
	return count(r.Jobs, job) > 0
}

// forget takes a command off the wire, and its wait off the server.
func (w *World) forget(x *msg) {
	w.wire = slices.DeleteFunc(w.wire, func(y *msg) bool { return y == x })
	if x.state == blocked {
		x.m.waits = slices.DeleteFunc(x.m.waits, func(y *wait) bool { return y.msg == x })
	}
}

// cut breaks the connection of a command: its sender hears so at once. late
// leaves a command that has not arrived in some socket, to arrive yet, or a
// blocked one at a server that does not notice.
func (w *World) cut(x *msg, late bool) {
	if w.trace != nil {
		w.tracef("the connection of %s of %s breaks (%s)", x.name, x.who(), map[bool]string{true: "the server does not notice", false: "both notice"}[late])
	}
	got := x.got
	x.got = nil
	if !late || x.state == answered {
		w.forget(x)
	}
	if got != nil && x.o != nil && x.o.alive && x.o.life == x.life {
		got(Reply{Verdict: Lost})
	}
}

// fallBack has a master hold what it held before. All its connections break, so
// nothing that was sent to it before arrives any more.
func (w *World) fallBack(m *Master, to map[string]*value) {
	w.acc.fallenBack(w, m, to)
	m.keys = copyKeys(to)
	m.epoch++
	w.note("fell back")
	w.tracef("%s falls back: %s", m.name, w.dump(m))
	for _, x := range slices.Clone(w.wire) {
		if x.m != m {
			continue
		}
		if x.o == nil || x.o.paused == 0 || x.got == nil {
			w.cut(x, false)
			continue
		}
		x.m.waits = slices.DeleteFunc(x.m.waits, func(y *wait) bool { return y.msg == x })
		x.state, x.reply = answered, Reply{Verdict: Lost}
	}
	m.waits = nil
	w.acc.excuse(w)
}
