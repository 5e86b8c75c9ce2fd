package claimmodel

import (
	"maps"
	"slices"
	"strings"
)

// account is what really happened to each job, which no process knows.
type account struct {
	pushed   map[string]int
	finished map[string]int  // runs that ended well, or in dead
	starts   map[string]int  // runs that began
	allowed  map[string]int  // runs more than one that something explains
	copies   map[string]int  // how often it may be in the system at once
	excused  map[string]bool // Redis forgot it while nobody alive held it
	put      map[string]bool // one of its two steps was done when a master fell back
	over     map[string]bool // place → the lease was over when it was fenced
	fencedAt map[string]int  // place → when
	forgot   int             // how often a master has fallen back
	lastSent map[string]int  // ID → when its last renewal arrived

	entered   map[string]int    // how often what a job pushes has entered
	left      map[string]bool   // it was left out, since another one holds its lock
	half      map[string]bool   // the script that pushes it, or moves it, has broken off
	holder    map[string]string // lock → the job that has taken it, until it ends
	elsewhere map[string]bool   // it has ended where nobody frees its lock
}

func newAccount() account {
	n := func() map[string]int { return map[string]int{} }
	b := func() map[string]bool { return map[string]bool{} }
	return account{pushed: n(), finished: n(), starts: n(), allowed: n(), copies: n(), excused: b(), put: b(), over: b(), fencedAt: n(), lastSent: n(),
		entered: n(), left: b(), half: b(), holder: map[string]string{}, elsewhere: b()}
}

// allow explains runs more of a job, and copies of it at the same time.
func (a *account) allow(job string, runs, copies int) {
	a.allowed[job] += runs
	a.copies[job] += copies
}

// started checks a job that begins to run.
func (w *World) started(o *owner, p *place, u *unit) {
	a := &w.acc
	a.starts[u.job]++
	u.run = a.starts[u.job]
	w.tracef("%s starts %s from %s", o.name(), u.job, u.list)
	if w.seen["cloned"] == 0 && a.starts[u.job] > a.pushed[u.job]+a.allowed[u.job] {
		w.fail("second run: %s starts for the %d. time, pushed %d times, and %d runs more are explained", u.job, a.starts[u.job], a.pushed[u.job], a.allowed[u.job])
	}
	if at, ok := a.fencedAt[p.at.Place]; ok && !w.faults.clone && (!w.cluster && a.forgot == 0 || w.cluster && a.forgot == 0 && a.over[p.at.Place]) {
		w.fail("stale start: %s starts %s, and was fenced at %d", o.name(), u.job, at)
	}
	if !w.cluster && a.forgot == 0 && !w.faults.clone && w.leaseOver(o.id()) {
		w.fail("stale start: %s starts %s on a lease that is over", o.name(), u.job)
	}
	w.aboveLimit(u)
	running := 0
	for _, other := range w.owners {
		if !other.alive {
			continue
		}
		for _, q := range other.places {
			if _, gone := a.fencedAt[q.at.Place]; gone {
				continue
			}
			for _, v := range q.units {
				if v.job == u.job && v.running {
					running++
				}
			}
		}
	}
	if running > a.pushed[u.job]+a.copies[u.job] && !w.faults.clone {
		w.fail("at the same time: %d processes that are alive and not fenced run %s", running, u.job)
	}
}

// ended notes how a run ended.
func (w *World) ended(o *owner, _ *place, u *unit) {
	w.tracef("%s ends %s: %s", o.name(), u.job, [...]string{"", "well", "retry", "dead", "requeue", "reroute"}[u.outcome])
	switch u.outcome {
	case well:
		w.ackedWith(u)
		o.ran[u.job] = true
		w.acc.finished[u.job]++
	case retried, requeued, rerouted, died:
		w.acc.allow(u.job, 1, 0)
		o.ran[u.job] = true
	case open:
	}
}

// served notes what a blocked move has brought.
func (w *World) served(x *wait, job string) {
	if t := w.givenBack; t != nil && t.open == x.msg {
		w.fail("echo: %s gives %s back, and its own wait gets it", x.msg.who(), job)
	}
}

// leaseOver reports whether a lease is gone, by Redis's clock.
func (w *World) leaseOver(id string) bool {
	return w.masters[0].find("troupe:lease:"+id) == nil
}

// fencedBy notes that a place was fenced: what its lists hold will run again.
func (a *account) fencedBy(w *World, at Address, over bool) {
	if _, ok := a.fencedAt[at.Place]; !ok {
		a.fencedAt[at.Place] = w.now
		a.over[at.Place] = w.leaseOver(at.ID)
		w.note("fenced")
	}
	if !over && a.forgot == 0 && !w.faults.clone {
		w.fail("fenced: %s, whose lease lives", at.ID)
	}
	for _, m := range w.masters {
		for key, v := range m.keys {
			if v.kind == aList && strings.HasPrefix(key, at.Lists) {
				for _, job := range v.list {
					a.allow(job, 1, 0)
				}
			}
		}
	}
	if o := w.ownerOf(at.ID); o != nil {
		a.inHand(o, func(u *unit) { a.allow(u.job, 1, 0) })
	}
}

func (w *World) ownerOf(id string) *owner {
	for _, o := range w.owners {
		if o.alive && o.id() == id {
			return o
		}
	}
	return nil
}

func (a *account) inHand(o *owner, each func(*unit)) {
	for _, p := range o.places {
		for _, u := range p.units {
			each(u)
		}
	}
}

// settled is called when an owner forgets a job after its ack.
func (a *account) settled(p *place, u *unit) {
	p.o.w.settledWith(u)
	if u.put && u.putEpoch != p.o.w.epochs() {
		a.put[u.job] = true // written into another slot, acknowledged, and forgotten there
	}
}

// ownerGone is called when an owner dies, or drops what it has: that explains a
// run more of each of its jobs. What only it had is excused if a master has
// forgotten it and the owner could not know yet.
func (a *account) ownerGone(w *World, o *owner) {
	for _, m := range w.masters {
		for key, v := range m.keys {
			if v.kind == aList && w.belongs(key, o.id()) {
				for _, job := range v.list {
					a.allow(job, 1, 0)
				}
			}
		}
	}
	for _, p := range o.places {
		for _, u := range p.units {
			a.allow(u.job, 1, 0)
			seen := p.seen
			if isWaiting(u.list) {
				seen = p.waits[u.queue].seen
			}
			if u.outcome != well && !w.somewhere(u.job, o) && a.finished[u.job] < a.pushed[u.job] {
				if (seen < p.m.epoch || w.faults.clone) && w.epochs() > 0 || a.put[u.job] || u.put && u.putEpoch != w.epochs() {
					a.excused[u.job] = true
				} else {
					w.fail("lost: only %s had %s, and is gone, after it had heard of all that Redis has forgotten", o.name(), u.job)
				}
			}
		}
	}
}

func (w *World) epochs() (n int) {
	for _, m := range w.masters {
		n += m.epoch
	}
	return n
}

func (w *World) belongs(key, id string) bool {
	for _, queues := range w.slots() {
		if strings.HasPrefix(key, w.address(id, queues).Lists) {
			return true
		}
	}
	return false
}

// somewhere reports whether a job is in Redis, on the wire back from it, or in the
// hand of a live owner but this one.
func (w *World) somewhere(job string, but *owner) bool {
	for _, m := range w.masters {
		for _, v := range m.keys {
			if v.kind == aList && count(v.list, job) > 0 {
				return true
			}
			if _, ok := v.hash[job]; ok && v.kind == aSet {
				return true
			}
		}
	}
	for _, o := range w.owners {
		if o == but || !o.alive {
			continue
		}
		for _, p := range o.places {
			for _, u := range p.units {
				if u.job == job && u.outcome != well {
					return true
				}
			}
		}
	}
	for _, r := range w.rescue {
		if count(r.hand, job) > 0 {
			return false // of a rescuer that may die: that is what the mutant is about
		}
	}
	return false
}

// fallenBack compares what a master holds with what it is about to hold: each
// copy that comes back explains a run more.
func (a *account) fallenBack(w *World, m *Master, to map[string]*value) {
	a.forgot++
	for key, v := range to {
		if v.kind != aList && v.kind != aSet {
			continue
		}
		now := m.keys[key]
		for _, job := range members(v) {
			had := 0
			if now != nil {
				had = count(members(now), job)
			}
			if more := count(members(v), job) - had; more > 0 {
				a.allow(job, more, more)
			}
		}
	}
	for _, o := range w.live() { // what is in a hand is written back, and somebody else may have it by now
		a.inHand(o, func(u *unit) { a.allow(u.job, 1, 1) })
	}
	for _, o := range w.owners { // acknowledged in another slot, then forgotten there: nobody can tell
		a.inHand(o, func(u *unit) { a.put[u.job] = a.put[u.job] || u.put })
	}
	for key := range a.holder {
		if w.masterOfKey(key) == m {
			delete(a.holder, key)
			if v := to[key]; v != nil {
				a.holder[key] = v.list[0]
			}
		}
	}
	for key, v := range to { // a tombstone that Redis forgets was never there
		if text := v.hash[ours]; v.kind == aHash && text != "" && text != fenced {
			delete(a.fencedAt, key)
		}
	}
}

func members(v *value) []string {
	if v.kind == aSet {
		return slices.Sorted(maps.Keys(v.hash))
	}
	return v.list
}

// excuse notes what nobody has any more after a master has fallen back.
func (a *account) excuse(w *World) {
	for job, n := range a.pushed {
		if a.finished[job] < n && !w.somewhere(job, nil) {
			a.excused[job] = true
			w.note("forgotten by redis")
		}
	}
}
