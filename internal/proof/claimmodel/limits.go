package claimmodel

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Times of limits. A slot outlives the lease, so that the jobs of a dead process come back before it ends.
const (
	atOnce     = 1 // jobs of a limit
	slotLife   = lease + 6
	letInLife  = 20 // of the slot of a job that was let in
	kept       = 5  // of the slot of a job that was requeued as its process stops
	goesOn     = 4  // a handler whose job was requeued, at most
	givenUpFor = 10 // a handler that was given up
)

// Limit is where the slots of a limit and the jobs that it holds are: one for all queues, on Cluster one for each.
type Limit struct {
	Slots string // hash: job -> when its slot ends
	Held  string // list, the oldest in front
	Queue func(job string) string
}

// Leaving is what becomes of the slot of a job that is moved.
type Leaving struct {
	Limit *Limit // nil: it is under none
	Keep  int    // the slot lives for so long more
	As    string // and is this one's; "": the job's
}

// limit is that of the jobs of a queue; nil without any.
func (w *World) limit(queue string) *Limit {
	if !w.faults.limits {
		return nil
	}
	tag := ""
	if w.cluster {
		tag = queue
	}
	return &Limit{Slots: "troupe:slots:{" + tag + "}", Held: "troupe:held:{" + tag + "}", Queue: func(job string) string {
		if w.cluster {
			return queueKey(queue)
		}
		return queueKey(w.works[job].queue)
	}}
}

// keys are those of a limit.
func (l *Limit) keys() []string {
	if l == nil {
		return nil
	}
	return []string{l.Slots, l.Held}
}

// slots reads those that have not ended.
func (c *call) slots(l *Limit) map[string]int {
	live := map[string]int{}
	for _, job := range c.fields(l.Slots) {
		text, _ := c.hget(l.Slots, job)
		if ends, _ := strconv.Atoi(text); ends > *c.m.now {
			live[job] = ends
		} else {
			c.hdel(l.Slots, job)
		}
	}
	return live
}

func (c *call) give(l *Limit, job string, life int) error {
	return c.hset(l.Slots, job, number(*c.m.now+life))
}

// hold writes a job to those that a limit holds, by its age.
func (c *call) hold(l *Limit, job string) error {
	v, err := c.touch(l.Held, aList, true, true)
	if err != nil {
		return err
	}
	if v == nil {
		v = c.make(l.Held, aList)
	}
	at, _ := slices.BinarySearch(v.list, job)
	v.list = slices.Insert(v.list, at, job)
	return nil
}

// LetIn lets held jobs in, the oldest first, while there is room: each gets a slot, and goes to the end of its queue that
// is popped next. What its queue refuses goes behind the others.
//
//	KEYS slots, held, queues
func LetIn(c *call, l *Limit, rules *Without) {
	for range 16 {
		held, err := c.lrange(l.Held)
		if err != nil || len(held) == 0 || len(c.slots(l)) >= atOnce {
			return
		}
		c.give(l, held[0], letInLife) //nolint:errcheck // it asks in any case
		switch err := c.push(l.Queue(held[0]), held[0], false); {
		case err != nil:
			c.hdel(l.Slots, held[0])
			c.lrem(l.Held, held[0])        //nolint:errcheck // read above
			c.push(l.Held, held[0], false) //nolint:errcheck // read above
			return
		case !rules.HeldLeaves:
			c.lrem(l.Held, held[0]) //nolint:errcheck // read above
		default:
			return
		}
	}
}

// Admit asks the limit of a job in progress. It stays, with a slot, if it has one already, or there is room and nobody waits;
// else it is held. With force it has a slot in any case: it runs, and Redis has forgotten its slot.
//
//	KEYS place, list, slots, held
//	ARGV generation, call, job, force
//
// If a slot, or a job that is to be held, cannot be written the script fails, and has moved nothing.
func Admit(c *call, h Head, list, job string, l *Limit, force bool) Reply {
	m, v := h.enter(c)
	if v != OK {
		return Reply{Verdict: v}
	}
	if !h.rules.LetInFirst {
		LetIn(c, l, h.rules)
	}
	held, _ := c.lrange(l.Held)
	live := c.slots(l)
	_, has := live[job]
	r := Reply{Verdict: OK}
	switch {
	case force || has && !h.rules.SlotIsKnown || len(live) < atOnce && (len(held) == 0 || h.rules.BehindHeld):
		life := slotLife
		if h.rules.SlotOutlivesLease {
			life = third
		}
		if c.give(l, job, life) != nil {
			return Reply{Verdict: Failed}
		}
		r.Passed = !force && !has && len(held) > 0
	default:
		if c.hold(l, job) != nil && !h.rules.HeldBeforeLeft {
			return Reply{Verdict: Failed}
		}
		r.Held = true
		c.lrem(h.list(list), job) //nolint:errcheck // absent is fine
		unname(c, h.Address, list)
	}
	h.leave(c, m)
	return r
}

// leave ends the slot of a job that has been moved, or keeps it, and lets others in.
func (x Leaving) leave(c *call, job string, rules *Without) {
	switch {
	case x.Limit == nil || rules.SlotLeaves && x.Keep == 0:
		return
	case x.Keep > 0 && (x.As == "" && !rules.RequeueKeepsSlot || x.As != "" && !rules.GivenUpKeepsSlot):
		if _, has := c.slots(x.Limit)[job]; has && x.As != "" {
			c.hdel(x.Limit.Slots, job)
			c.give(x.Limit, x.As, x.Keep) //nolint:errcheck // read above
		} else if has {
			c.give(x.Limit, job, x.Keep) //nolint:errcheck // read above
		}
	default:
		c.hdel(x.Limit.Slots, job)
	}
	if !rules.LetInAtLeave {
		LetIn(c, x.Limit, rules)
	}
}

// ask asks the limit of a job, or with force takes its slot again.
func (p *place) ask(u *unit, force bool) {
	w, l := p.o.w, p.o.w.limit(u.queue)
	moved := []*unit{u}
	if force || w.rules.HeldByList {
		moved = nil
	}
	u.busy, u.asking, u.asked = !force, !force, p.o.clock()
	p.request("ask for "+u.job, p.next(), moved, func(c *call, h Head) Reply {
		r := Admit(c, h, u.list, u.job, l, force)
		if r.Verdict == OK && !r.Held {
			u.sign = w.now
		}
		if r.Passed && w.acc.forgot == 0 {
			w.fail("order: %s comes in, and others are held", u.job)
		}
		if r.Held {
			w.note("held")
		}
		return r
	}, func(r Reply) {
		if u.without = false; force {
			w.note("slot taken again")
			return
		}
		u.busy, u.asking = false, false
		if u.admitted = !r.Held; r.Held {
			p.drop(u)
		}
	})
}

// beat renews the slots of the jobs of a place that run. It renews only: one that is gone is taken again by a call, which a
// fence refuses.
func (p *place) beat() {
	w := p.o.w
	if !w.faults.limits || p.beating != nil || !p.joined {
		return
	}
	var units []*unit
	for _, u := range p.units {
		if u.running && u.outcome == open {
			units = append(units, u)
		}
	}
	if len(units) == 0 {
		return
	}
	gone := map[*unit]bool{}
	p.beating = w.send(&msg{name: "renew slots", o: p.o, m: p.m, script: func(c *call) Reply {
		c.hdel("", "")
		clear(gone)
		for _, u := range units {
			l := w.limit(u.queue)
			if _, has := c.slots(l)[u.job]; has || w.rules.BeatOnlyRenews {
				u.sign = w.now
				c.give(l, u.job, slotLife) //nolint:errcheck // read above
			} else {
				gone[u] = true
			}
		}
		return Reply{Verdict: OK}
	}, got: func(r Reply) {
		p.beating = nil
		for _, u := range units {
			u.without = r.Verdict == OK && gone[u]
		}
	}})
}

// forgotten is a run that is to take its slot again: before anything else, as soon as nothing is on its way.
func (p *place) forgotten() *unit {
	if p.busy != nil || p.doubt || len(p.compare) > 0 || p.o.leaving {
		return nil
	}
	for _, u := range p.units {
		if u.running && u.outcome == open && u.without {
			return u
		}
	}
	return nil
}

// handler is one that goes on though its job is not its own any more.
type handler struct {
	o     *owner
	place string
	job   string
	slots string
	until int
}

// beside notes that a handler goes on when its job has been requeued or given up.
func (w *World) beside(u *unit, p *place, job string, life int) {
	if l := w.limit(u.queue); l != nil {
		w.handlers = append(w.handlers, &handler{p.o, p.at.Place, job, l.Slots, min(w.now+life, u.sign+slotLife)})
	}
}

// aboveLimit judges a job that starts: no more run at once than the limit allows, but handlers of processes that were away for
// longer than a slot lives, or were fenced. A master that has fallen back may have forgotten slots.
func (w *World) aboveLimit(u *unit) {
	l := w.limit(u.queue)
	if l == nil || w.acc.forgot > 0 {
		return
	}
	running := map[string]bool{u.job: true}
	for _, o := range w.live() {
		for _, p := range o.places {
			if _, gone := w.acc.fencedAt[p.at.Place]; gone {
				continue
			}
			for _, v := range p.units {
				if v.running && v.outcome == open && w.limit(v.queue).Slots == l.Slots && v.sign+slotLife > w.now && w.acc.copies[v.job] == 0 {
					running[v.job] = true
				}
			}
		}
	}
	w.handlers = slices.DeleteFunc(w.handlers, func(h *handler) bool {
		_, gone := w.acc.fencedAt[h.place]
		return gone || !h.o.alive || h.until <= w.now || h.job == u.job
	})
	for _, h := range w.handlers {
		if h.slots == l.Slots && w.acc.copies[u.job] == 0 {
			running[h.job] = true
		}
	}
	if len(running) > atOnce {
		w.fail("above the limit: %d jobs run at once: %v", len(running), slices.Sorted(maps.Keys(running)))
	}
}

// lead lets jobs in as the leader does, since slots end by themselves.
func (w *World) lead() {
	if !w.faults.limits || w.rules.LeaderLooks {
		return
	}
	for _, q := range w.queues {
		l := w.limit(q)
		m := w.masterOfKey(l.Slots)
		w.run(m, -1, func(c *call) Reply { c.wrote = true; LetIn(c, l, w.rules); return Reply{Verdict: OK} })
	}
}

// leftSlots looks for slots without a job, when all jobs have ended.
func (w *World) leftSlots() {
	for _, m := range w.masters {
		for key, v := range m.keys {
			if !strings.HasPrefix(key, "troupe:slots:") || v.kind != aHash {
				continue
			}
			for _, job := range slices.Sorted(maps.Keys(v.hash)) {
				ends, _ := strconv.Atoi(v.hash[job])
				if ends > w.now && !strings.Contains(job, "~") && w.acc.forgot == 0 && !w.acc.elsewhere[job] && w.acc.copies[job] == 0 && w.big == "" {
					w.fail("slot without a job: %s has one until %d, and has ended", job, ends)
				}
			}
			delete(m.keys, key)
		}
	}
}
