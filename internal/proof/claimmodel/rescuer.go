package claimmodel

import (
	"maps"
	"slices"
	"strconv"
)

// rescuer is one of several, each in some process. It may stop for ever after
// any of its steps, or go on much later.
type rescuer struct {
	w     *World
	n     int
	turn  int
	slot  []string // of whose places it is about to look
	left  []string // IDs that it has found without a lease
	at    Address
	lists []string // names, the next one last
	found map[string]Found
	hand  []string // with RescueInOneStep: what is in its hand
	shut  string   // with CloseInOneStep: what it has to close
	over  bool     // it saw the lease gone, in another slot
}

func (r *rescuer) name() string { return "rescuer " + strconv.Itoa(r.n) }

// step does one script.
func (r *rescuer) step() {
	w := r.w
	switch {
	case len(r.hand) > 0:
		job, queue := r.hand[0], r.hand[1]
		r.hand = nil
		w.run(w.masterOf(r.slot[0]), -1, func(c *call) Reply { c.wrote = true; c.push(queue, job, false); return Reply{} }) //nolint:errcheck // only in a mutant
	case r.shut != "":
		key := r.shut
		r.shut = ""
		w.run(w.masterOf(r.slot[0]), -1, func(c *call) Reply { c.wrote = true; c.set(key, closed, day); return Reply{} }) //nolint:errcheck // only in a mutant
	case len(r.lists) > 0:
		r.rescue()
	case r.at.ID != "":
		r.fence()
	case len(r.left) > 0:
		r.at = w.address(r.left[0], r.slot)
		r.left = r.left[1:]
		if w.cluster { // the lease lies in another slot: one step more
			key := r.at.leaseKey()
			if w.masters[0].find(key) != nil && !w.rules.LeaseAtFence {
				r.at = Address{}
			}
		}
		if r.at.ID != "" {
			r.over = w.leaseOver(r.at.ID)
		}
	default:
		r.look()
	}
}

func (r *rescuer) look() {
	w := r.w
	slots := w.slots()
	r.turn++
	r.slot = slots[(r.turn+w.pick(len(slots)))%len(slots)]
	at := w.address("", r.slot)
	m := w.masterOfKey(at.Registry)
	if !w.cluster && w.rules.LeaseAtFence {
		w.run(m, -1, func(c *call) Reply { r.left = c.fields(at.Registry); return Reply{} })
		return
	}
	w.run(m, -1, func(c *call) Reply {
		r.left = Look(c, at.Registry, func(id string) string {
			if w.cluster {
				return ""
			}
			return w.address(id, r.slot).Lease
		})
		return Reply{}
	})
	if w.cluster && w.rules.RegistryInSlot {
		r.left = slices.DeleteFunc(r.left, func(id string) bool { return !w.masters[0].has("troupe:places", w.address(id, r.slot).Place) })
	}
}

func (r *rescuer) fence() {
	w := r.w
	m := w.masterOf(r.slot[0])
	over := r.over || w.leaseOver(r.at.ID)
	reply := w.run(m, r.breakOff(), func(c *call) Reply { return Fence(c, Head{Address: r.at, rules: w.rules}) })
	w.tracef("%s fences %s: %s", r.name(), r.at.Place, describe(reply))
	if reply.Verdict == OK && !reply.Last || reply.Last && len(reply.Lists) > 0 {
		w.acc.fencedBy(w, r.at, over)
	}
	if reply.Last {
		w.registered(r.at, false)
	}
	if reply.Verdict != OK || reply.Last {
		r.at = Address{}
		return
	}
	r.found = reply.Lists
	r.lists = slices.Sorted(maps.Keys(reply.Lists))
}

func (r *rescuer) breakOff() int {
	if r.w.faults.breakOff && !r.w.faultless && r.w.pick(8) == 1 {
		return 1 + r.w.pick(10)
	}
	return -1
}

func (r *rescuer) rescue() {
	w := r.w
	m := w.masterOf(r.slot[0])
	name := r.lists[len(r.lists)-1]
	queue := r.found[name].Queue
	h := Head{Address: r.at, rules: w.rules}
	if w.rules.RescueInOneStep {
		w.run(m, -1, func(c *call) Reply {
			jobs, _ := c.lrange(r.at.list(name))
			if len(jobs) > 0 {
				c.lrem(r.at.list(name), jobs[0]) //nolint:errcheck // only in a mutant
				r.hand = []string{jobs[0], queueKey(queue)}
			}
			return Reply{}
		})
		if len(r.hand) > 0 {
			return
		}
	}
	r.lists = r.lists[:len(r.lists)-1]
	reply := w.run(m, r.breakOff(), func(c *call) Reply { return Rescue(c, h, name, queueKey(queue)) })
	w.tracef("%s empties %s: %s", r.name(), r.at.list(name), describe(reply))
	if w.rules.CloseInOneStep && isWaiting(name) && reply.Verdict == OK {
		r.shut = r.at.list(name)
	}
	if reply.Last {
		w.registered(r.at, false)
	}
	if reply.Last || len(r.lists) == 0 || reply.Verdict != OK {
		r.lists, r.at = nil, Address{}
	}
}
