package claimmodel

// step does one thing of all that can happen.
func (w *World) step() {
	switch n := w.pick(64); {
	case n < 4:
		w.tick(1)
	case n < 8:
		w.push()
	case n < 28:
		w.act()
	case n < 48:
		w.carry()
	case n < 54:
		if r := w.rescue[w.pick(len(w.rescue))]; w.pick(8) == 1 {
			*r = rescuer{w: w, n: r.n} // died, another one takes its place
			w.tracef("%s dies", r.name())
		} else {
			r.step()
		}
	case n < 55:
		w.promote()
	case n < 56:
		w.rubyWaits()
	case n < 57:
		for _, m := range w.masters {
			if w.pick(2) == 1 {
				m.save()
				w.tracef("%s saves", m.name)
			}
		}
	default:
		w.fault()
	}
}

func (w *World) tick(n int) {
	w.now += n
	for _, o := range w.owners {
		if o.paused == 2 {
			o.slept += n
		}
	}
	for _, m := range w.masters {
		w.serve(m)
	}
}

func (w *World) push() {
	if w.jobs == 6 {
		return
	}
	w.jobs++
	job := "j" + string(rune('0'+w.jobs))
	if w.faults.twice && w.jobs%2 == 0 {
		job = "j" + string(rune('0'+w.jobs-1))
	}
	q := w.queues[w.pick(len(w.queues))]
	m := w.masterOf(q)
	if m.full || m.bad[queueKey(q)] {
		return
	}
	w.draw(job, q)
	if key := w.works[job].lock; key != "" {
		if m.find(key) != nil {
			w.tracef("%s is a duplicate", job)
			return
		}
		w.run(m, -1, func(c *call) Reply { c.set(key, job, 0); return Reply{} }) //nolint:errcheck // not full
	}
	w.tracef("%s is pushed to %s", job, q)
	w.acc.pushed[job]++
	joins := w.faults.batches && !w.closed
	if joins {
		w.batch = append(w.batch, job)
	}
	w.run(m, -1, func(c *call) Reply {
		if c.push(queueKey(q), job, true); joins { //nolint:errcheck // looked above
			Join(c, job)
		}
		return Reply{}
	})
}

// act has one owner do something.
func (w *World) act() {
	live := w.live()
	if len(live) == 0 {
		w.newOwner()
		return
	}
	o := live[w.pick(len(live))]
	if can := o.actions(); o.paused == 0 && len(can) > 0 {
		can[w.pick(len(can))].do()
	}
}

func (w *World) live() (live []*owner) {
	for _, o := range w.owners {
		if o.alive {
			live = append(live, o)
		}
	}
	return live
}

// movable returns the commands and replies that can go on now.
func (w *World) movable() (can []*msg) {
	for _, x := range w.wire {
		if x.state == sent || x.state == answered && (x.o == nil || x.got == nil || x.o.paused == 0) {
			can = append(can, x)
		}
	}
	return can
}

// carry brings one command to the server, or one reply back.
func (w *World) carry() {
	if can := w.movable(); len(can) > 0 {
		x := can[w.pick(len(can))]
		if x.got == nil && x.state == sent && w.pick(8) != 1 {
			return // lies in its socket for long
		}
		if x.state == sent {
			w.arrive(x)
		} else {
			w.deliver(x)
		}
	}
}

// promote moves a due job from retry to its queue, as the scheduler does; on
// Cluster it is two steps, which are tested where the scheduler is.
func (w *World) promote() {
	w.lead()
	m := w.masters[0]
	v := m.find("retry")
	if v == nil || v.kind != aSet || m.bad["retry"] {
		return
	}
	jobs := members(v)
	job := jobs[w.pick(len(jobs))]
	q := w.queues[w.pick(len(w.queues))]
	if w.works[job].lock != "" {
		q = w.works[job].queue
	}
	if w.masterOf(q).bad[queueKey(q)] {
		return
	}
	w.tracef("%s is due, and goes to %s", job, q)
	w.run(m, -1, func(c *call) Reply { c.zrem("retry", job); return Reply{} })
	w.run(w.masterOf(q), -1, func(c *call) Reply { c.wrote = true; c.push(queueKey(q), job, true); return Reply{} }) //nolint:errcheck // looked above
}

// rubyWaits has a Ruby process wait for one job.
func (w *World) rubyWaits() {
	if !w.faults.ruby || w.faultless {
		return
	}
	q := w.queues[w.pick(len(w.queues))]
	m := w.masterOf(q)
	x := &msg{name: "BRPOP " + q, m: m}
	x.wait = &wait{msg: x, queue: queueKey(q), epoch: m.epoch}
	x.got = func(Reply) {}
	w.send(x)
}
