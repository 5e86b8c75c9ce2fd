package claimmodel

import "slices"

// Resync makes a place, or asks what has become of it. It is the only script
// that changes a generation, and so the end of all calls that are still on their
// way.
//
//	KEYS place, registry, lease (where it lies in this slot)
//	ARGV id, layout and queues, new generation
//
// Each attempt asks for a new generation, higher than any this process has asked
// for: a place that has it already belongs to a stranger with the same ID. It
// returns what "!" was (Gen 0: there was no place) and the length of every list
// that the place names. The number stays as it is: if this reply is lost, the
// next attempt must still find whether the doubtful call was done.
func Resync(c *call, h Head) Reply {
	h.open(c)
	text, err := c.hget(h.Place, ours)
	if err != nil {
		return Reply{Verdict: Failed}
	}
	var old Mark
	if text != "" {
		old = parseMark(text)
	}
	if old.Fenced {
		return Reply{Verdict: Fenced}
	}
	if (old.Gen > h.Gen || old.Gen == h.Gen && !h.rules.NewGenerationEach) && !h.rules.StrangersAreFences && !h.rules.Generations {
		return Reply{Verdict: Stranger}
	}
	if (text == "" || !c.m.has(h.Registry, h.ID)) && (!h.rules.RegisteredByResync || h.Gen == 1) {
		if c.hset(h.Registry, h.ID, "2") != nil {
			return Reply{Verdict: Failed}
		}
	}
	if h.Lease != "" && text == "" {
		c.set(h.Lease, "1", lease) //nolint:errcheck // a write came before it
	}
	next := Mark{Gen: max(h.Gen, old.Gen), Call: old.Call}
	if h.rules.NumberOutlivesResync {
		next.Call = max(h.Call, old.Call)
	}
	r := Reply{Verdict: OK, Mark: old, Lists: map[string]Found{}}
	lists(c, h.Address, r.Lists)
	c.hset(h.Place, ours, next.String()) //nolint:errcheck // a hash, or there was none
	return r
}

// has reports whether a hash has a field; part of a script's reads.
func (m *Master) has(key, field string) bool {
	v := m.find(key)
	if v == nil || v.kind != aHash {
		return false
	}
	_, ok := v.hash[field]
	return ok
}

// lists fills in what the place names.
func lists(c *call, a Address, found map[string]Found) {
	for _, name := range c.fields(a.Place) {
		if name == ours {
			continue
		}
		queue, _ := c.hget(a.Place, name)
		n, _ := c.llen(a.list(name))
		found[name] = Found{Queue: queue, Len: n}
	}
}

// Page reads a list. It is no call: it has no number, and changes nothing.
//
//	KEYS place, list
//	ARGV generation, from, bytes
func Page(c *call, h Head, name string) Reply {
	text, err := c.hget(h.Place, ours)
	m := parseMark(text)
	switch {
	case err != nil:
		return Reply{Verdict: Failed}
	case text == "":
		return Reply{Verdict: Missing}
	case m.Fenced:
		return Reply{Verdict: Fenced}
	case m.Gen != h.Gen && !h.rules.Generations:
		return Reply{Verdict: Stranger}
	}
	jobs, err := c.lrange(h.list(name))
	if err != nil {
		return Reply{Verdict: Failed}
	}
	return Reply{Verdict: OK, Jobs: jobs}
}

// Restore writes into a list, under its name, what its owner has in hand and
// Redis has forgotten.
//
//	KEYS place, list
//	ARGV generation, call, name, queue, jobs
func Restore(c *call, h Head, name, queue string, jobs []string) Reply {
	m, v := h.enter(c)
	if v != OK {
		return Reply{Verdict: v}
	}
	if c.hset(h.Place, name, queue) != nil {
		return Reply{Verdict: Failed}
	}
	for _, job := range jobs {
		if c.push(h.list(name), job, true) != nil {
			return Reply{Verdict: Failed}
		}
	}
	h.leave(c, m)
	return Reply{Verdict: OK}
}

// Refuse sends what its owner could not read in three tries back to its queue, or
// to dead: all of a list but what is in hand, which has come once. No byte of it
// leaves the server.
//
//	KEYS place, list, destination
//	ARGV generation, call, digests of the jobs in hand
func Refuse(c *call, h Head, name string, known []string, to Destination) Reply {
	m, v := h.enter(c)
	if v != OK {
		return Reply{Verdict: v}
	}
	jobs, err := c.lrange(h.list(name))
	if err != nil {
		return Reply{Verdict: Failed}
	}
	r := Reply{Verdict: OK}
	known = slices.Clone(known)
	for _, job := range jobs {
		if i := slices.Index(known, job); i >= 0 {
			known = slices.Delete(known, i, i+1)
			continue
		}
		if to.write(c, job) != nil {
			r.Refused = append(r.Refused, job)
			continue
		}
		c.lrem(h.list(name), job) //nolint:errcheck // read above
	}
	unname(c, h.Address, name)
	h.leave(c, m)
	return r
}

// Open names the waiting list of a queue. It is the first command on each
// connection that blocked moves are sent on: what Redis has forgotten while the
// connection was made anew is named again before a job can come. It is no call:
// a late one names a list of the same generation once more.
//
//	KEYS place
//	ARGV generation, queue
func Open(c *call, h Head, queue string) Reply {
	h.open(c)
	text, err := c.hget(h.Place, ours)
	m := parseMark(text)
	switch {
	case err != nil:
		return Reply{Verdict: Failed}
	case text == "":
		return Reply{Verdict: Missing}
	case m.Fenced:
		return Reply{Verdict: Fenced}
	case m.Gen != h.Gen && !h.rules.Generations:
		return Reply{Verdict: Stranger}
	}
	if h.rules.NamedWhileOpen {
		return Reply{Verdict: OK}
	}
	if c.hset(h.Place, waitingName(queue), queue) != nil {
		return Reply{Verdict: Failed}
	}
	return Reply{Verdict: OK}
}

// Renew prolongs the lease, or makes it again if Redis has forgotten it, unless
// the place is not this generation's. On Cluster the lease lies in a slot of its
// own: there a process asks for nothing but the lease.
//
//	KEYS lease, place (one server)
//	ARGV generation, lease in ms
func Renew(c *call, h Head, key string) Reply {
	h.open(c)
	if h.Lease != "" {
		text, err := c.hget(h.Place, ours)
		m := parseMark(text)
		switch {
		case err != nil:
			return Reply{Verdict: Failed}
		case text == "":
			return Reply{Verdict: Missing}
		case m.Fenced:
			return Reply{Verdict: Fenced}
		case m.Gen != h.Gen && !h.rules.Generations:
			return Reply{Verdict: Stranger}
		}
	}
	if h.rules.LeaseMadeAgain && h.Lease != "" && !c.exists(key) {
		return Reply{Verdict: OK}
	}
	if c.set(key, "1", lease) != nil {
		return Reply{Verdict: Failed}
	}
	return Reply{Verdict: OK}
}
