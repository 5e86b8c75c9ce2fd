package claimmodel

import (
	"maps"
	"slices"
)

// resync asks what has become of the place, each time for a new generation.
func (p *place) resync() {
	w, at := p.o.w, p.o.clock()
	if !w.rules.Generations && (!w.rules.NewGenerationEach || p.asked <= p.gen) {
		p.asked = max(p.asked, p.gen) + 1
	} else if w.rules.Generations {
		p.asked = max(1, p.asked)
	}
	h := p.head()
	h.Gen, h.Call = p.asked, p.number
	var x *msg
	x = &msg{name: "resync", o: p.o, m: p.m, again: true, script: func(c *call) Reply { return Resync(c, h) }, got: func(r Reply) {
		if p.busy == x {
			p.busy = nil
		}
		p.resynced(h.Gen, at, r)
	}}
	p.busy = w.send(x)
}

// resynced settles the doubtful call by its number, and notes which lists are to
// be compared with what is in hand.
func (p *place) resynced(gen, at int, r Reply) {
	w := p.o.w
	switch r.Verdict {
	case OK:
	case Fenced, Stranger:
		p.o.fenced()
		return
	case Missing, Done, Forgot, Alive, Failed, Lost:
		return // again
	}
	if r.Mark.Gen == 0 && !w.cluster {
		p.o.renewed, p.o.leased = at, true // the script has made the lease, too
	}
	w.registered(p.at, true)
	same := r.Mark.Gen >= p.gen && r.Mark.Gen > 0 && (r.Mark.Call == p.call || p.doubtful != nil && r.Mark.Call == p.doubtCall) || !p.joined
	same = same && !p.odd
	p.joined, p.doubt, p.odd, p.again = true, p.again, false, false
	if doubtful := p.doubtful; doubtful != nil {
		p.doubtful = nil
		if r.Mark.Call == p.doubtCall || w.rules.AskedByNumber {
			doubtful()
		}
	}
	if !same { // Redis may have forgotten the move
		for _, u := range p.units {
			u.maybe = false
		}
	}
	p.idle()
	p.gen, p.call = gen, r.Mark.Call
	switch { // numbers are never used again: claims are named by them
	case w.rules.NumbersNeverGoBack:
		p.number = p.call
	case w.rules.NumberOutlivesResync:
		p.call = max(p.call, p.number)
	default:
		p.number = max(p.number, p.call)
	}
	unread := p.compare // what an earlier resync wanted read is still to be read
	if p.compare = nil; w.rules.CompareIsKept {
		unread = nil
	}
	names := maps.Clone(r.Lists)
	p.named = map[string]string{}
	for name, f := range r.Lists {
		p.named[name] = f.Queue
	}
	for _, u := range p.units {
		if _, ok := names[u.list]; !ok {
			names[u.list] = Found{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if isWaiting(name) { // the waiter compares
			if wt := p.waiterOf(name); wt != nil {
				wt.compare = true
			}
			continue
		}
		if names[name].Len != len(p.inHand(name)) || slices.Contains(unread, name) || !same && !w.rules.AllAfterRollback {
			p.compare = append(p.compare, name)
		}
	}
}

func (p *place) waiterOf(name string) *waiter {
	for _, q := range p.queues {
		if p.waits[q].list == name {
			return p.waits[q]
		}
	}
	return nil
}

// compareNext reads one list, and then compares it.
func (p *place) compareNext() {
	name := p.compare[0]
	h := p.head()
	var x *msg
	x = &msg{name: "page " + name, o: p.o, m: p.m, script: func(c *call) Reply { return Page(c, h, name) }, got: func(r Reply) {
		if p.busy == x {
			p.busy = nil
		}
		switch r.Verdict {
		case OK:
			p.compared(name, r.Jobs)
		case Fenced:
			p.o.fenced()
		case Lost:
			p.unread(name)
		default:
			p.doubt = true
		}
	}}
	p.busy = p.o.w.send(x)
}

// unread counts a page that did not come. After three the list goes back unread.
func (p *place) unread(name string) {
	if p.tries[name]++; p.tries[name] < 3 || p.o.w.rules.UnreadableGoesBack {
		return
	}
	known := p.inHand(name)
	queue := p.named[name]
	if wt := p.waiterOf(name); wt != nil {
		queue = wt.queue
	}
	p.refusals++
	to := Destination{Key: queueKey(queue), Front: true}
	if p.refusals > 2 { // on Cluster dead may lie in another slot, and nobody can carry it there
		to = Destination{Key: "dead", Set: true}
		if p.o.w.cluster {
			to.Key = queueKey(queue) + unreadable
		}
	}
	p.request("refuse "+name, p.next(), nil, func(c *call, h Head) Reply { return Refuse(c, h, name, known, to) }, func(Reply) {
		p.tries[name] = 0 // and the page is asked for once more: what is left in it has come before
	})
}

// compared takes over what is there and not in hand, and writes back what is in
// hand and not there.
func (p *place) compared(name string, there []string) {
	w := p.o.w
	p.compare = slices.DeleteFunc(p.compare, func(n string) bool { return n == name })
	p.tries[name] = 0
	queue := ""
	wt, epoch := p.waiterOf(name), p.m.epoch
	if wt != nil {
		queue = wt.queue
	}
	known := func(Reply) {
		if wt != nil {
			wt.seen = epoch
		}
	}
	var missing []string
	units := slices.DeleteFunc(slices.Clone(p.units), func(u *unit) bool { return u.list != name })
	slices.SortStableFunc(units, func(u, v *unit) int { // of equal bytes, what is certain comes first
		switch {
		case u.maybe == v.maybe || w.rules.CertainFirst:
			return 0
		case v.maybe:
			return -1
		}
		return 1
	})
	for _, u := range units {
		queue = u.queue
		i := slices.Index(there, u.job)
		switch {
		case i >= 0: // if it was to be moved, its destination has refused it
			there = slices.Delete(there, i, i+1)
			u.admitted = u.admitted || u.asking && u.maybe // it would be held, and not be there
			u.busy, u.maybe, u.asking = u.busy && !u.maybe, false, u.asking && !u.maybe
		case u.maybe:
			p.acked(u)
		case u.outcome != well || p.withEffects(u) && !w.rules.DoneIsWrittenBack:
			missing = append(missing, u.job)
		}
	}
	if queue == "" {
		queue = p.named[name]
	}
	for _, job := range there {
		if w.rules.NeverAckUnknown && p.o.ran[job] {
			p.ackUnknown(name, job)
			continue
		}
		w.tracef("%s adopts %s from %s", p.o.name(), job, name)
		w.note("adopted")
		p.units = append(p.units, &unit{job: job, list: name, queue: queue})
	}
	if len(missing) > 0 && !w.rules.WriteBack {
		w.note("written back")
		p.request("restore "+name, p.next(), nil, func(c *call, h Head) Reply { return Restore(c, h, name, queue, missing) }, known)
	} else {
		known(Reply{})
	}
}

// ackUnknown is what the first draft of the protocol did.
func (p *place) ackUnknown(name, job string) {
	acks := []Ack{{List: name, Len: -1, Jobs: []string{job}}}
	p.request("ack "+job, p.next(), nil, func(c *call, h Head) Reply { return Take(c, h, acks, nil) }, func(Reply) {})
}
