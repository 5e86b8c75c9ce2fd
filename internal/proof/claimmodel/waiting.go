package claimmodel

// actions lists what a waiter can do.
func (t *waiter) actions(add func(string, func())) {
	p, o := t.p, t.p.o
	switch {
	case t.open != nil:
		if t.open.wait != nil && (o.free() <= 0 || o.leaving) {
			add("unblock", t.unblock)
		}
	case !p.joined || o.leaving || o.free() <= 0 || !o.leased || o.clock()-o.renewed > third:
	case t.conn < 0:
		add("open "+t.list, t.name)
	case p.giving == t.queue: // it would get what is on its way back
	case !t.compare || o.w.rules.CompareBetween:
		add("wait "+t.queue, t.wait)
	}
}

// name has the list named, on the connection that the waits will use.
func (t *waiter) name() {
	p := t.p
	h := p.head()
	epoch := p.m.epoch
	t.open = p.o.w.send(&msg{name: "open " + t.list, o: p.o, m: p.m, script: func(c *call) Reply { epoch = p.m.epoch; return Open(c, h, t.queue) }, got: func(r Reply) {
		t.open = nil
		switch r.Verdict {
		case OK:
			t.conn = epoch
		case Fenced:
			p.o.fenced()
		case Lost, Failed:
		default:
			p.doubtAll()
		}
	}})
}

// wait sends a blocked move.
func (t *waiter) wait() {
	p := t.p
	x := &msg{name: "BLMOVE " + queueKey(t.queue) + " " + t.list, o: p.o, m: p.m}
	x.wait = &wait{msg: x, queue: queueKey(t.queue), to: p.at.list(t.list), epoch: t.conn}
	x.got = t.served
	t.open = p.o.w.send(x)
}

// served reads the end of a wait.
func (t *waiter) served(r Reply) {
	p := t.p
	t.open = nil
	switch r.Verdict {
	case OK:
		for _, job := range r.Jobs {
			p.units = append(p.units, &unit{job: job, list: t.list, queue: t.queue})
			if p.o.w.rules.NamedWhileOpen {
				h, name, queue := p.head(), t.list, t.queue
				p.o.w.send(&msg{name: "name " + t.list, o: p.o, m: p.m, script: func(c *call) Reply {
					c.wrote = true
					c.hset(h.Place, name, queue) //nolint:errcheck // only in a mutant
					return Reply{Verdict: OK}
				}})
			}
		}
	case Failed: // refused: the list is closed, or Redis is in trouble; the job is in its queue
		p.doubtAll()
	default:
		t.conn, t.doubtful, t.compare = -1, true, true // and again at the next beat
	}
}

// unblock ends a wait of a process that is full: by CLIENT UNBLOCK, or by
// closing the connection.
func (t *waiter) unblock() {
	x := t.open
	if x.state == blocked && t.p.o.w.pick(2) == 0 {
		t.p.o.w.forget(x)
		t.p.o.w.wire = append(t.p.o.w.wire, x)
		x.answer(t.p.o.w, Reply{Verdict: OK})
		return
	}
	if x.state != answered { // never answered: such a list is closed at leave, not deleted
		t.p.o.w.note("closed a connection")
		t.p.o.w.cut(x, t.p.o.w.faults.late && !t.p.o.w.faultless && t.p.o.w.pick(2) == 1)
	}
}
