package claimmodel

import "slices"

// Vacate empties one list of an owner into its queue, the newest job first, and
// takes its name out of the place. A waiting list that may still get something
// is closed in the same script: a blocked move whose destination is a string
// fails with WRONGTYPE, and the job stays in its queue. It is a part of Leave and
// of Rescue.
func vacate(c *call, h Head, name, queue string, shut bool) Verdict {
	key := h.list(name)
	for {
		job, err := c.giveBack(key, queue)
		if err == errType && isClosed(c, key) { //nolint:errorlint // never wrapped
			break // a rescuer before us was cut off here
		}
		if err != nil {
			return Failed
		}
		if job == "" {
			break
		}
	}
	if shut {
		c.set(key, closed, day) //nolint:errcheck // a write came before it
	} else if isWaiting(name) {
		c.del(key)
	}
	c.hdel(h.Place, name)
	return OK
}

func isClosed(c *call, key string) bool {
	v := c.m.find(key)
	return v != nil && v.kind == aString
}

// Leave is an owner's last call: all that its lists still hold goes back, and
// nothing stays behind. doubtful says which waiting lists may get a job yet,
// since a wait was never answered: those are closed.
//
//	KEYS place, registry, lease, lists, queues
//	ARGV generation, call
func Leave(c *call, h Head, queueKey func(string) string, doubtful func(queue string) bool) Reply {
	_, v := h.enter(c)
	if v != OK {
		return Reply{Verdict: v}
	}
	names := c.fields(h.Place)
	for _, name := range slices.Backward(names) {
		if name == ours {
			continue
		}
		queue, _ := c.hget(h.Place, name)
		shut := isWaiting(name) && (doubtful(queue) && !h.rules.CloseAtLeave || h.rules.DeleteAtCleanLeave)
		if v := vacate(c, h, name, queueKey(queue), shut); v != OK {
			return Reply{Verdict: v}
		}
	}
	c.del(h.Place)
	if h.Lease != "" {
		c.del(h.Lease)
	}
	c.hdel(h.Registry, h.ID) // last: what is registered and has no place is cleared away by any rescuer
	return Reply{Verdict: OK}
}

// Look returns the IDs in a registry, and of those on one server only the ones
// that have no lease.
//
//	KEYS registry, leases (one server)
func Look(c *call, registry string, leaseOf func(id string) string) (ids []string) {
	for _, id := range c.fields(registry) {
		if key := leaseOf(id); key == "" || !c.exists(key) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Fence ends an owner whose lease is gone: its place becomes a tombstone. It
// returns the lists that the place names. From here on no call of the owner does
// anything. On Cluster the rescuer has looked at the lease before, in its slot.
//
//	KEYS place, registry, lease (one server)
//	ARGV id
func Fence(c *call, h Head) Reply {
	h.open(c)
	if h.Lease != "" && !h.rules.LeaseAtFence && c.exists(h.Lease) {
		return Reply{Verdict: Alive}
	}
	text, err := c.hget(h.Place, ours)
	if err != nil {
		return Reply{Verdict: Failed}
	}
	r := Reply{Verdict: OK, Lists: map[string]Found{}}
	if text == "" { // registered, and the place never made
		c.hdel(h.Registry, h.ID)
		r.Last = true
		return r
	}
	if h.rules.RegistryAfterLists {
		c.hdel(h.Registry, h.ID)
	}
	if !h.rules.TombstoneFirst {
		c.hset(h.Place, ours, fenced) //nolint:errcheck // read above
	}
	if h.rules.TTLAfterLists {
		c.expire(h.Place, day)
	}
	lists(c, h.Address, r.Lists)
	r.Last = finish(c, h)
	return r
}

// finish ends a rescue that has nothing left to do: the tombstone gets its TTL,
// and then the owner leaves the registry. If the script breaks off between the
// two, the next rescuer finds the owner still registered and does it again.
func finish(c *call, h Head) bool {
	if len(c.fields(h.Place)) > 1 {
		return false
	}
	if h.rules.Tombstone {
		c.del(h.Place)
	} else {
		c.hset(h.Place, ours, fenced) //nolint:errcheck // read above
		c.expire(h.Place, day)
	}
	c.hdel(h.Registry, h.ID)
	return true
}

// Rescue puts the jobs of one list of a fenced owner back, and closes it if it
// is a waiting list. The script that removes the last name ends the rescue.
//
//	KEYS place, registry, list, queue
//	ARGV id, name
func Rescue(c *call, h Head, name, queue string) Reply {
	h.open(c)
	text, err := c.hget(h.Place, ours)
	switch {
	case err != nil:
		return Reply{Verdict: Failed}
	case text == "":
		return Reply{Verdict: Missing}
	case !parseMark(text).Fenced && !h.rules.TombstoneFirst:
		return Reply{Verdict: Alive}
	}
	shut := isWaiting(name) && !h.rules.CloseAtRescue
	if v := vacate(c, h, name, queue, shut && !h.rules.CloseInOneStep); v != OK {
		return Reply{Verdict: v}
	}
	return Reply{Verdict: OK, Last: finish(c, h)}
}
