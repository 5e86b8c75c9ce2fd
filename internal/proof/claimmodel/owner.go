package claimmodel

import (
	"strconv"
)

// outcome is what has become of a job in its handler.
type outcome uint8

const (
	open outcome = iota // it waits for a slot, or runs
	well
	retried
	died
	requeued // to the end that is popped next
	rerouted // to the end of another queue
)

// unit is a job in the hand of an owner.
type unit struct {
	job, list, queue string
	running          bool
	outcome          outcome
	busy             bool // in the call that is on its way
	maybe            bool // moved, or refused by its destination: its list will tell
	put              bool // Cluster: its destination is written, in another slot
	putEpoch         int

	asking   bool // in the call that asks its limit
	givenUp  bool // its handler goes on
	asked    int  // when, by the clock of its owner
	admitted bool // its limit has let it in
	sign     int  // when its slot was last given or renewed
	without  bool // a beat has found that it has none

	effects Effects // of its end, or of the item that is not stored yet
	item    int     // how many are stored
	run     int     // of the job, this one
}

// owner is a process. It loses what is in its memory when it dies, and becomes
// another owner, with a new ID, when it is fenced.
type owner struct {
	w       *World
	n, life int
	alive   bool
	paused  int  // 1 stopped, 2 with its monotonic clock: a suspended machine
	thin    bool // a link that does not carry the big job
	leaving bool
	slots   int

	slept   int // how long its monotonic clock stood still
	renewed int // when the last confirmed renewal was sent, by its clock
	renewal *msg
	leased  bool

	places  []*place
	refused map[string]int
	ran     map[string]bool // what it has ended well: only a mutant looks at it
}

func (o *owner) id() string {
	if o.life == 0 {
		return "p" + strconv.Itoa(o.n)
	}
	return "p" + strconv.Itoa(o.n) + "." + strconv.Itoa(o.life)
}

func (o *owner) name() string { return o.id() }

// clock is what the owner takes for the time: the larger of what passed by its
// wall clock and by its monotonic clock, which stands still with the machine.
func (o *owner) clock() int {
	if o.w.rules.LargerClock {
		return o.w.now - o.slept
	}
	return o.w.now
}

func (o *owner) leaseLives() bool { return o.leased && o.clock()-o.renewed < lease }

// place is what an owner knows of one place: of the only one, or of a queue's.
type place struct {
	o      *owner
	at     Address
	m      *Master
	queues []string

	joined    bool
	gen, call int  // of the last call that was confirmed
	asked     int  // the highest generation ever asked for
	number    int  // the highest number ever sent
	doubt     bool // resync before anything else
	again     bool // the doubt came up while a call was on its way: an answer to that does not end it
	odd       bool // somebody else has sent a call with our number: read all lists
	doubtful  func()
	doubtCall int
	busy      *msg // the call on its way
	beating   *msg // the renewal of slots on its way
	compare   []string
	named     map[string]string // list → queue, as the last resync said
	refusals  int
	giving    string         // queue that jobs are on their way back to
	tries     map[string]int // list → how often its page did not come
	left      bool
	seen      int // epoch of the master at the last call that was confirmed

	units []*unit
	waits map[string]*waiter
}

// waiter is who waits for pushes to one queue.
type waiter struct {
	p        *place
	queue    string
	list     string // name
	open     *msg   // the blocked move, or the Open before it
	conn     int    // epoch of the connection; -1 means none
	compare  bool   // somebody has to compare the list
	doubtful bool   // a wait was never answered: it may yet be served
	seen     int    // epoch of the master at the last comparison
}

func (w *World) newOwner() *owner {
	w.born++
	o := &owner{w: w, n: w.born, alive: true, slots: 1 + w.pick(2), refused: map[string]int{}, ran: map[string]bool{}}
	o.thin = w.faults.thin && w.pick(2) == 1
	o.begin()
	w.owners = append(w.owners, o)
	return o
}

// begin makes a new incarnation.
func (o *owner) begin() {
	o.places = nil
	o.leased, o.renewal = false, nil
	for _, queues := range o.w.slots() {
		p := &place{o: o, at: o.w.address(o.id(), queues), m: o.w.masterOf(queues[0]), queues: queues, waits: map[string]*waiter{}, tries: map[string]int{}}
		p.doubt = true // the first resync makes the place
		for _, q := range queues {
			p.waits[q] = &waiter{p: p, queue: q, list: waitingName(q), conn: -1}
		}
		o.places = append(o.places, p)
	}
}

func (p *place) head() Head {
	return Head{Address: p.at, Gen: p.gen, Prev: p.call, Call: p.number, rules: p.o.w.rules}
}

// next is the head of a new call.
func (p *place) next() Head {
	p.number++
	return p.head()
}

// inHand returns the jobs of a list.
func (p *place) inHand(list string) (jobs []string) {
	for _, u := range p.units {
		if u.list == list {
			jobs = append(jobs, u.job)
		}
	}
	return jobs
}

func (p *place) drop(u *unit) {
	for i := range p.units {
		if p.units[i] == u {
			p.units = append(p.units[:i:i], p.units[i+1:]...)
			return
		}
	}
}

// free is the number of slots that have no job.
func (o *owner) free() int {
	n := o.slots
	for _, p := range o.places {
		for _, u := range p.units {
			if u.outcome == open {
				n--
			}
		}
	}
	return n
}

// action is something that an owner can do now.
type action struct {
	name string
	do   func()
}

// actions lists what an owner can do, the most urgent first.
func (o *owner) actions() (can []action) {
	add := func(name string, do func()) { can = append(can, action{name, do}) }
	if o.renewal == nil && !o.allLeft() && (!o.leased || o.clock()-o.renewed >= third) && (o.w.cluster || o.places[0].joined && !o.places[0].doubt && !o.places[0].left) {
		add("renew", o.renew)
	}
	for _, p := range o.places {
		if p.left {
			continue
		}
		o.placeActions(p, add)
	}
	if o.leaving && o.allLeft() && o.renewal == nil { // a renewal on its way would make the lease again
		add("end", o.end)
	}
	return can
}

func (o *owner) placeActions(p *place, add func(string, func())) {
	if u := p.forgotten(); u != nil && !o.w.rules.ForgottenIsTaken {
		add("take a slot again", func() { p.ask(u, true) })
		return
	}
	for _, u := range p.units {
		switch {
		case u.outcome != open:
		case u.running && (u.busy || len(u.effects.Push) > 0 || o.w.faultless && u.item < o.w.works[u.job].items): // an item is being stored
		case u.running:
			add("end job", func() { o.endJob(p, u) })
		case o.w.faults.limits && !u.admitted:
		case o.w.faults.limits && o.clock()-u.asked > lease/2 && !o.w.rules.OldAnswer: // it may be another process's job by now
			u.admitted = u.busy
		case !u.busy && o.mayStart(p) && o.running() < o.slots: // not while it is on its way back
			add("start", func() { o.start(p, u) })
		}
	}
	if p.busy == nil && (p.joined || !o.w.cluster || o.leased) {
		switch {
		case p.doubt:
			add("resync", p.resync)
			return
		case len(p.compare) > 0:
			add("compare", p.compareNext)
			return
		}
	}
	if p.doubt || len(p.compare) > 0 {
		return
	}
	if p.busy == nil || o.w.rules.OneCallAtATime {
		p.calls(add)
	}
	for _, q := range p.queues {
		p.waits[q].actions(add)
	}
}

func (o *owner) running() (n int) {
	for _, p := range o.places {
		for _, u := range p.units {
			if u.running && u.outcome == open {
				n++
			}
		}
	}
	return n
}

// mayStart reports whether jobs may start: no job starts on a lease that is over.
func (o *owner) mayStart(p *place) bool {
	if o.leaving {
		return false
	}
	return o.w.rules.LeaseAtStart || o.leaseLives() && (!p.doubt || !o.w.cluster)
}

func (o *owner) start(p *place, u *unit) {
	u.running = true
	if v := p.m.find(cursor(u.job)); v != nil {
		u.item, _ = strconv.Atoi(v.hash["c"])
	}
	o.w.started(o, p, u)
}

func (o *owner) endJob(p *place, u *unit) {
	if p.forgotten() == u {
		o.w.fail("without a slot: %s ends, and has not taken again what Redis has forgotten", u.job)
	}
	u.running = false
	kinds := []outcome{well, well, well, well}
	if o.w.faults.outcomes && !o.w.faultless {
		kinds = []outcome{well, well, retried, died, requeued, rerouted}
	}
	if o.leaving {
		kinds = []outcome{well, requeued}
	}
	u.outcome = kinds[o.w.pick(len(kinds))]
	if u.outcome == well && u.item < o.w.works[u.job].items {
		u.outcome = requeued // interrupted
	}
	if o.w.faults.limits {
		switch {
		case u.outcome == requeued && o.leaving:
			o.w.beside(u, p, u.job, goesOn)
		case u.outcome == retried && o.w.pick(2) == 1:
			u.givenUp = true
			o.w.beside(u, p, u.job+"~"+o.id(), givenUpFor)
		}
	}
	if u.outcome == rerouted && (len(o.w.queues) == 1 || o.w.cluster && o.w.works[u.job].lock != "") { // it would leave its lock behind
		u.outcome = requeued
	}
	o.w.ended(o, p, u)
}

func (o *owner) allLeft() bool {
	for _, p := range o.places {
		if !p.left {
			return false
		}
	}
	return true
}

// end is the last of an owner that has left all its places.
func (o *owner) end() {
	o.alive = false
	if o.w.cluster {
		key := o.places[0].at.leaseKey()
		o.w.send(&msg{name: "DEL lease", o: o, m: o.w.masters[0], script: func(c *call) Reply { c.del(key); return Reply{Verdict: OK} }})
	}
	o.w.tracef("%s has left", o.name())
}

// withEffects reports whether a job that has ended well has effects.
func (p *place) withEffects(u *unit) bool {
	return len(u.effects.Push) > 0 || p.o.w.works[u.job].lock != "" || p.o.w.faults.limits || p.o.w.faults.batches
}

func number(n int) string { return strconv.Itoa(n) }
