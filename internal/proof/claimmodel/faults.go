package claimmodel

import "slices"

// fault has something go wrong, if this history has such faults.
func (w *World) fault() {
	f := &w.faults
	all := []struct {
		on bool
		do func()
	}{
		{f.cuts, w.cutOne}, {f.cuts, w.cutOne}, {f.crash, func() { w.kill(false) }}, {f.machine, func() { w.kill(true) }},
		{f.pause, w.pause}, {f.pause, w.pause}, {f.fallBack, w.fallBackOne}, {f.spoil, w.spoil}, {f.full, w.fill},
		{f.leave, w.leaveOne}, {f.clone, w.clone}, {f.suspend, w.pause}, {true, func() { w.tick(third) }}, {true, w.loseLate},
		{true, func() { w.tick(lease) }}, {w.rules.RegistryNewName, w.oldRescuer}, {f.crash || f.leave, w.another}, {true, w.longTime}, {f.effects, w.expire}, {f.batches, w.closeBatch},
	}
	var on []func()
	for _, x := range all {
		if x.on {
			on = append(on, x.do)
		}
	}
	on[w.pick(len(on))]()
}

func (w *World) cutOne() {
	var can []*msg
	for _, x := range w.wire {
		if x.o != nil && x.got != nil && x.o.paused == 0 {
			can = append(can, x)
			if x.wait != nil && w.faults.late { // waits are what no number guards
				can = append(can, x, x)
			}
		}
	}
	if len(can) > 0 {
		w.note("cut")
		w.cut(can[w.pick(len(can))], w.faults.late && w.pick(2) == 1)
	}
}

// kill ends a process, or its machine: then Redis does not hear of it, and what
// is blocked stays blocked.
func (w *World) kill(machine bool) {
	live := w.live()
	if len(live) == 0 {
		return
	}
	o := live[w.pick(len(live))]
	w.tracef("%s dies (%s)", o.name(), map[bool]string{true: "its machine", false: "killed"}[machine])
	w.note("killed")
	o.alive = false
	w.acc.ownerGone(w, o)
	for _, x := range slices.Clone(w.wire) {
		if x.o != o {
			continue
		}
		x.got = nil
		if x.state == answered || x.state == blocked && !machine {
			w.forget(x)
		}
	}
}

// loseLate drops a command that nobody waits for.
func (w *World) loseLate() {
	for _, x := range w.wire {
		if x.got == nil {
			w.note("command lost")
			w.forget(x)
			return
		}
	}
}

// pause stops a process, or lets it go on.
func (w *World) pause() {
	live := w.live()
	if len(live) == 0 {
		return
	}
	o := live[w.pick(len(live))]
	switch {
	case o.paused != 0:
		o.paused = 0
		w.tracef("%s goes on", o.name())
	case w.faults.suspend && w.pick(2) == 1:
		o.paused = 2
		w.tracef("the machine of %s is suspended", o.name())
	default:
		o.paused = 1
		w.tracef("%s is stopped", o.name())
	}
}

func (w *World) fallBackOne() {
	m := w.masters[w.pick(len(w.masters))]
	w.fallBack(m, m.saved[w.pick(len(m.saved))])
}

// spoil has a key answer WRONGTYPE for a while, or no longer.
func (w *World) spoil() {
	keys := []string{"retry", "dead"}
	for _, q := range w.queues {
		keys = append(append(keys, queueKey(q)), w.limit(q).keys()...)
	}
	key := keys[w.pick(len(keys))]
	m := w.masterOfKey(key)
	m.bad[key] = !m.bad[key]
	w.tracef("%s answers WRONGTYPE: %t", key, m.bad[key])
	w.serve(m)
}

func (w *World) fill() {
	m := w.masters[w.pick(len(w.masters))]
	m.full = !m.full
	w.tracef("%s is out of memory: %t", m.name, m.full)
}

func (w *World) leaveOne() {
	live := w.live()
	o := live[w.pick(max(1, len(live)))%max(1, len(live)):]
	if len(o) > 0 && !o[0].leaving {
		w.tracef("%s is told to stop", o[0].name())
		o[0].leaving = true
	}
}

func (w *World) another() {
	if len(w.live()) < 3 {
		w.tracef("%s starts", w.newOwner().name())
	}
}

// longTime lets more than a day pass: no process lives on through it, and nothing
// stays on the wire.
func (w *World) longTime() {
	if w.pick(8) != 1 {
		return
	}
	for len(w.live()) > 0 {
		w.kill(false)
	}
	for _, x := range slices.Clone(w.wire) {
		w.forget(x)
	}
	w.tick(day + 1)
	w.tracef("a day passes")
}

// oldRescuer is one of the layout before: it removes from its registry what it
// cannot read.
func (w *World) oldRescuer() {
	for _, m := range w.masters {
		w.run(m, -1, func(c *call) Reply {
			for _, id := range c.fields("troupe:procs") {
				c.hdel("troupe:procs", id)
			}
			return Reply{}
		})
	}
}

// clone makes a second process out of the memory of one: a virtual machine that
// was copied while it ran. What was on its way is answered to the first.
func (w *World) clone() {
	live := w.live()
	if len(live) == 0 || len(live) > 2 {
		return
	}
	o := live[w.pick(len(live))]
	w.tracef("%s is cloned", o.name())
	c := *o
	c.renewal = nil
	c.places = nil
	for _, p := range o.places {
		q := *p
		q.o, q.busy, q.units, q.waits, q.doubtful = &c, nil, nil, map[string]*waiter{}, nil
		q.compare, q.tries = slices.Clone(p.compare), map[string]int{}
		q.doubt = q.doubt || p.busy != nil
		for _, u := range p.units {
			v := *u
			q.units = append(q.units, &v)
			w.acc.allow(u.job, 1, 1)
		}
		for name, t := range p.waits {
			v := *t
			v.p, v.open, v.conn, v.doubtful, v.compare = &q, nil, -1, true, true
			q.waits[name] = &v
		}
		c.places = append(c.places, &q)
	}
	w.owners = append(w.owners, &c)
	w.note("cloned")
}
