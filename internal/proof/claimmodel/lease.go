package claimmodel

// leaseKey is where the lease lies, in this slot or another one.
func (a Address) leaseKey() string { return "troupe:lease:" + a.ID }

// renew sends a renewal. Its age counts from here, not from the reply.
func (o *owner) renew() {
	p := o.places[0]
	h, m := p.head(), p.m
	if o.w.cluster {
		h, m = Head{rules: o.w.rules}, o.w.masters[0]
	}
	key, at := p.at.leaseKey(), o.clock()
	var x *msg
	x = &msg{name: "renew", o: o, m: m, script: func(c *call) Reply { return Renew(c, h, key) }, got: func(r Reply) {
		if o.renewal == x {
			o.renewal = nil
		}
		switch r.Verdict {
		case OK:
			if o.w.rules.LeaseFromSending {
				at = o.clock()
			}
			// On Cluster a rescuer may have been faster in some place while the lease was
			// gone, also if this renewal was sent before that and arrived after it.
			gap := o.leased && !o.leaseLives() && !o.w.rules.GapIsNoticed
			o.renewed, o.leased = max(at, o.renewed), true
			if gap && o.w.cluster {
				for _, p := range o.places {
					p.doubtAll()
				}
			}
		case Fenced:
			o.fenced()
		default:
			p.doubtAll()
		}
	}}
	o.renewal = o.w.send(x)
	for _, p := range o.places { // the beat: each waiting list is compared
		p.beat()
		for _, q := range p.queues {
			if !o.w.rules.CompareAtBeat && !o.leaving {
				p.waits[q].compare = true
			}
		}
	}
}

// doubtAll asks for a resync.
func (p *place) doubtAll() {
	if p.joined {
		p.doubt = true
		p.again = p.busy != nil && !p.o.w.rules.LateAnswerIsNone
	}
}

// fenced begins a new incarnation: all that was in hand is another process's now.
// Jobs that run are cancelled, and what they return is refused.
func (o *owner) fenced() {
	o.w.tracef("%s is fenced, and goes on as a new incarnation", o.name())
	o.w.note("told fenced")
	o.dropAll()
	o.life++
	if o.leaving {
		o.alive = false
		return
	}
	o.begin()
}

// dropAll forgets everything in memory. The connections of waits are closed.
func (o *owner) dropAll() {
	o.w.acc.ownerGone(o.w, o)
	for _, p := range o.places {
		p.units = nil
		for _, q := range p.queues {
			if x := p.waits[q].open; x != nil {
				o.w.cut(x, o.w.faults.late && !o.w.faultless && o.w.pick(2) == 1)
			}
		}
	}
}
