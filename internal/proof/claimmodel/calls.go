package claimmodel

import (
	"slices"
)

// request sends a call of the place, and says what to do when it was done: with
// its reply, or with none if its number has told so. moved are the units whose
// destination may have been refused, which only the reply says.
func (p *place) request(name string, h Head, moved []*unit, script func(*call, Head) Reply, done func(Reply)) {
	number := h.Call
	var jobs []string
	for _, u := range moved {
		jobs = append(jobs, u.job)
	}
	var x *msg
	x = &msg{name: name, o: p.o, m: p.m, jobs: jobs, again: true, script: func(c *call) Reply { return script(c, h) }, got: func(r Reply) {
		if p.busy == x {
			p.busy, p.giving = nil, ""
		}
		p.settled(number, r, moved, done)
	}}
	p.busy = p.o.w.send(x)
}

// settled reads the reply to a call.
func (p *place) settled(number int, r Reply, moved []*unit, done func(Reply)) {
	switch r.Verdict {
	case OK:
		if !r.Nothing {
			p.call = number
		}
		if len(p.compare) == 0 {
			p.seen = p.m.epoch // all that the last resync has found missing is written back
		}
		done(r)
	case Fenced:
		p.o.fenced()
	default:
		switch rules := p.o.w.rules; {
		case rules.ResyncAfterLoss && (r.Verdict == Lost || r.Verdict == Failed):
			p.idle()
			p.call = number
			return
		case rules.LostMeansDone && r.Verdict == Lost:
			p.call = number
			done(Reply{Verdict: OK})
			return
		}
		p.doubt = true
		p.odd = p.odd || r.Verdict == Done && !p.o.w.rules.DoneIsOdd
		if r.Verdict == Lost || r.Verdict == Failed || r.Verdict == Done {
			p.doubtCall, p.doubtful = number, func() { p.maybe(moved, done) }
		} else {
			p.idle()
		}
	}
}

// maybe settles a call of which only the number is known. Its moves were done,
// or their destinations refused them: their lists tell.
func (p *place) maybe(moved []*unit, done func(Reply)) {
	if len(moved) == 0 || p.o.w.rules.ListsTellRefused {
		done(Reply{Verdict: OK, ByNumber: true})
		return
	}
	for _, u := range moved {
		u.maybe = true
		p.compare = append(p.compare, u.list)
	}
}

// idle frees the units of a call that was not done.
func (p *place) idle() {
	for _, u := range p.units {
		u.busy, u.asking = u.maybe, u.asking && u.maybe
	}
}

// compares reports whether a waiting list is to be compared now: the resync does that before anything else, if no move is open for it.
func (p *place) compares(list string) bool {
	wt := p.waiterOf(list)
	return wt != nil && wt.compare && (wt.open == nil || wt.open.wait == nil)
}

// calls lists the calls that make sense now.
func (p *place) calls(add func(string, func())) {
	o := p.o
	acks := p.acks()
	if wants := p.wants(); len(wants) > 0 || len(acks) > 0 {
		add("take", func() { p.take(acks, p.wants()) })
	}
	for _, u := range p.units {
		if u.busy || u.outcome == open || u.outcome == well && !p.withEffects(u) || o.w.faults.batches && p.compares(u.list) {
			continue
		}
		add("settle", func() { p.settle(u) })
		break
	}
	for _, u := range p.units {
		if p.compares(u.list) {
			continue
		}
		if o.w.faults.limits && u.outcome == open && !u.running && !u.busy && !u.admitted && o.mayStart(p) {
			add("ask", func() { p.ask(u, false) })
			break
		}
	}
	for _, u := range p.units {
		if u.running && !u.busy && u.item < o.w.works[u.job].items {
			add("store", func() { p.store(u) })
			break
		}
	}
	if list := p.surplus(); list != "" {
		add("give back", func() { p.giveBack(list) })
	}
	for _, q := range p.queues {
		if wt := p.waits[q]; wt.compare && (wt.open == nil || o.w.rules.CompareBetween) {
			add("compare "+wt.list, func() { wt.compare = false; p.compare = append(p.compare, wt.list) })
		}
	}
	if o.leaving && p.joined && len(p.units) == 0 && !p.waiting() {
		add("leave", p.leave)
	}
}

func (p *place) waiting() bool {
	for _, q := range p.queues {
		if p.waits[q].open != nil {
			return true
		}
	}
	return false
}

// acks collects what has ended well, by list.
func (p *place) acks() (acks []Ack) {
	for _, u := range p.units {
		if u.outcome != well || u.busy || p.withEffects(u) {
			continue
		}
		i := slices.IndexFunc(acks, func(a Ack) bool { return a.List == u.list })
		if i < 0 {
			acks = append(acks, Ack{List: u.list, Len: len(p.inHand(u.list))})
			i = len(acks) - 1
		}
		acks[i].Jobs = append(acks[i].Jobs, u.job)
	}
	return acks
}

func (p *place) wants() (wants []Want) {
	free := p.o.free()
	if free <= 0 || p.o.leaving {
		return nil
	}
	for _, q := range p.queues {
		wants = append(wants, Want{Queue: q, Key: queueKey(q), Max: free + 1})
	}
	return wants
}

func (p *place) take(acks []Ack, wants []Want) {
	var acked []*unit
	for _, u := range p.units {
		if u.outcome == well && !u.busy && !p.withEffects(u) {
			u.busy = true
			acked = append(acked, u)
		}
	}
	p.request("take", p.next(), nil, func(c *call, h Head) Reply { return Take(c, h, acks, wants) }, func(r Reply) {
		for _, u := range acked {
			p.acked(u)
		}
		for _, claim := range r.Claims {
			for _, job := range claim.Jobs {
				p.units = append(p.units, &unit{job: job, list: claim.Name, queue: claim.Queue})
			}
		}
	})
}

// acked forgets a job that is out of its list.
func (p *place) acked(u *unit) {
	p.o.w.acc.settled(p, u)
	p.drop(u)
}

// settle sends a job that has not ended well to its destination, destination
// first: in one step, or in two if the destination lies in another slot.
func (p *place) settle(u *unit) {
	w := p.o.w
	to := w.destination(u)
	master := w.masterOfKey(to.Key)
	u.busy = true
	effects := u.effects
	effects.Lock, effects.Keep = w.works[u.job].lock, u.outcome != well && u.outcome != died
	if effects.Slot = (Leaving{Limit: w.limit(u.queue)}); u.outcome == requeued && p.o.leaving {
		effects.Slot.Keep = kept
	} else if u.givenUp {
		effects.Slot.Keep, effects.Slot.As = slotLife, u.job+"~"+p.o.id()
	}
	effects.Count = w.counting(u, p.o)
	done := func(r Reply) {
		u.busy = false
		if x := effects.Count; x != nil && w.rules.CountedInStep && len(r.Refused) == 0 {
			x.callback = w.nextCallback()
			w.run(p.m, -1, func(c *call) Reply { c.wrote = true; x.count(c, u.job, w.rules); return Reply{Verdict: OK} })
		}
		if len(r.Refused) == 0 {
			p.acked(u)
		}
	}
	switch {
	case to.None:
		p.request("ack with effects "+u.job, p.next(), []*unit{u}, func(c *call, h Head) Reply { return w.moveCounted(c, h, u, to, effects) }, done)
	case master == p.m:
		p.request("move "+u.job+" to "+to.Key, p.next(), []*unit{u}, func(c *call, h Head) Reply { return w.moveCounted(c, h, u, to, effects) }, done)
	case u.put && (effects.Lock != "" || effects.Slot.Limit != nil):
		p.request("take away "+u.job, p.next(), []*unit{u}, func(c *call, h Head) Reply { return w.moveCounted(c, h, u, Destination{None: true}, effects) }, done)
	case u.put || w.rules.DestinationFirst && u.outcome != open && !u.put:
		acks := []Ack{{List: u.list, Len: -1, Jobs: []string{u.job}}}
		p.request("ack "+u.job, p.next(), nil, func(c *call, h Head) Reply { return Take(c, h, acks, nil) }, func(r Reply) {
			if w.rules.DestinationFirst {
				w.send(&msg{name: "put " + u.job, o: p.o, m: master, script: func(c *call) Reply { return w.put(c, u, to) }})
			}
			done(r)
		})
	default:
		p.put(u, to, master)
	}
}

// put is the first of the two steps.
func (p *place) put(u *unit, to Destination, master *Master) {
	w := p.o.w
	w.send(&msg{name: "put " + u.job + " into " + to.Key, o: p.o, m: master, script: func(c *call) Reply { return w.put(c, u, to) }, got: func(r Reply) {
		u.busy = false
		if r.Verdict == OK && len(r.Refused) == 0 {
			u.put, u.putEpoch = true, w.epochs()
		}
	}})
}

// surplus names a list that has jobs for which there is no slot, or which an
// owner that leaves has not begun. A queue that a wait of our own is open on is
// left for later: we would get the job ourselves.
func (p *place) surplus() string {
	if p.o.free() >= 0 && !p.o.leaving {
		return ""
	}
	for _, u := range p.units {
		if u.outcome == open && !u.running && !u.busy && (p.waits[u.queue].open == nil || p.o.w.rules.EchoRule) {
			return u.list
		}
	}
	return ""
}

func (p *place) giveBack(list string) {
	var jobs []string
	var units []*unit
	queue := ""
	over := -p.o.free()
	for _, u := range slices.Backward(p.units) { // the newest first
		if u.list == list && u.outcome == open && !u.running && !u.busy && (over > 0 || p.o.leaving) {
			over--
			u.busy = true
			queue = u.queue
			units = append(units, u)
			jobs = append(jobs, u.job)
		}
	}
	known := len(p.inHand(list))
	p.giving = queue
	p.request("give back "+list, p.next(), units, func(c *call, h Head) Reply {
		p.o.w.givenBack = p.waits[queue]
		return GiveBack(c, h, list, queueKey(queue), known, jobs)
	}, func(r Reply) {
		for _, u := range units {
			if u.busy = false; count(r.Refused, u.job) == 0 {
				p.drop(u)
			}
		}
	})
}

func (p *place) leave() {
	doubtful := map[string]bool{}
	for _, q := range p.queues {
		doubtful[q] = p.waits[q].doubtful
	}
	p.request("leave", p.next(), nil, func(c *call, h Head) Reply {
		return Leave(c, h, queueKey, func(q string) bool { return doubtful[q] })
	}, func(Reply) {
		p.left = true
		p.o.w.registered(p.at, false)
	})
}
