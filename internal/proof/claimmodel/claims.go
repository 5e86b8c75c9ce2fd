package claimmodel

import (
	"slices"
	"strconv"
)

// Ack is what a take says of one list: these of its jobs have ended.
type Ack struct {
	List string
	Len  int // of the list as the owner knows it, the jobs of the ack with it
	Jobs []string
}

// Want is what a take asks one queue for.
type Want struct {
	Queue, Key string // its name and its list
	Max        int
}

// Take acks, and then makes a claim of each wanted queue that is not drained.
//
//	KEYS place, lists of the acks, queues
//	ARGV generation, call, then per ack: length known, jobs; per queue: most jobs
//
// It returns the claims with their jobs. A claim is named before a job is moved
// into it, and unnamed if none came. Its name is CALL.N, so that no claim ever
// has the name of another one. A call that acks nothing and finds nothing changes
// nothing and is not counted.
func Take(c *call, h Head, acks []Ack, wants []Want) Reply {
	m, v := h.enter(c)
	if v != OK {
		return Reply{Verdict: v}
	}
	if len(acks) == 0 && !slices.ContainsFunc(wants, func(w Want) bool { return c.exists(w.Key) }) {
		return Reply{Verdict: OK, Nothing: true}
	}
	for _, a := range acks {
		ack(c, h, a)
	}
	r := Reply{Verdict: OK}
	for i, want := range wants {
		if !c.exists(want.Key) {
			continue
		}
		claim := Claimed{Name: strconv.Itoa(h.Call) + "." + strconv.Itoa(i), Queue: want.Queue}
		if !h.rules.NameBeforeMove && c.hset(h.Place, claim.Name, want.Queue) != nil {
			continue
		}
		for len(claim.Jobs) < want.Max {
			job, err := c.take(want.Key, h.list(claim.Name))
			if err != nil || job == "" {
				break
			}
			claim.Jobs = append(claim.Jobs, job)
		}
		switch {
		case len(claim.Jobs) == 0:
			c.hdel(h.Place, claim.Name)
		case h.rules.NameBeforeMove:
			c.hset(h.Place, claim.Name, want.Queue) //nolint:errcheck // a hash, as above
		}
		if len(claim.Jobs) > 0 {
			r.Claims = append(r.Claims, claim)
		}
	}
	h.leave(c, m)
	return r
}

// ack removes jobs from a list. All of a claim go at once only if the list is as
// long as the owner knows it: what else is there is in nobody's hand.
func ack(c *call, h Head, a Ack) {
	key := h.list(a.List)
	n, err := c.llen(key)
	if err != nil {
		return
	}
	whole := len(a.Jobs) == a.Len && (n == a.Len || h.rules.LengthBeforeDel)
	if whole && (!isWaiting(a.List) || h.rules.WaitingByBytes) {
		c.del(key)
	} else {
		for _, job := range a.Jobs {
			c.lrem(key, job) //nolint:errcheck // absent is acked; not a list was seen above
		}
	}
	unname(c, h.Address, a.List)
}

// unname takes the name of an empty claim out of the place.
func unname(c *call, a Address, name string) {
	if !isWaiting(name) && !c.exists(a.list(name)) {
		c.hdel(a.Place, name)
	}
}

// Destination is where a job goes that has not ended well.
type Destination struct {
	Key   string
	Set   bool // a sorted set: retry or dead
	Front bool // of a queue: the end that is popped next
	None  bool // nowhere: it is done, and has effects
	Stay  bool // nowhere: it stays in progress, and has effects
}

func (d Destination) write(c *call, job string) error {
	if d.None || d.Stay {
		return nil
	}
	if d.Set {
		return c.zadd(d.Key, job)
	}
	return c.push(d.Key, job, !d.Front)
}

// Move takes one job out of a list: to retry, dead or a queue of the same slot, or nowhere. Its effects come with it:
// what it pushes before it, and its lock behind it.
//
//	KEYS place, list, destination
//	ARGV generation, call, old bytes, new bytes, effects
//
// What is not in the list is written all the same: the owner has it in hand, the
// fence holds and the number is new, so it is Redis that has forgotten it.
// Refused names the job if the destination could not be written; then it is still
// in its list, and without effects. A refused Stay fails instead: its list would not tell what became of it.
func Move(c *call, h Head, list, job string, to Destination, e Effects) Reply {
	if h.rules.EffectsBehindHead {
		h.open(c)
		e.enter(c, h.rules) //nolint:errcheck // only in a mutant
		e.Push = nil
	}
	if h.rules.ResultBehindHead {
		h.open(c)
		e.Count.keep(c, job, h.rules)
	}
	m, v := h.enter(c)
	if v != OK {
		return Reply{Verdict: v}
	}
	r := Reply{Verdict: OK}
	there := true
	if h.rules.AbsentIsWritten {
		jobs, _ := c.lrange(h.list(list))
		there = count(jobs, job) > 0
	}
	if h.rules.PushesFirst && !to.Stay {
		c.lrem(h.list(list), job) //nolint:errcheck // only in a mutant
	}
	if h.rules.LockBehindMove {
		e.unlock(c, job, h.rules)
	}
	if h.rules.CountBehindMove {
		e.Count.count(c, job, h.rules)
	}
	switch err := e.enter(c, h.rules); {
	case err != nil && to.Stay && !h.rules.RefusedStayFails:
		return Reply{Verdict: Failed}
	case err == nil && to.Stay:
	case err == nil && (!there || to.write(c, job) == nil):
		c.lrem(h.list(list), job) //nolint:errcheck // absent is fine
		unname(c, h.Address, list)
		e.unlock(c, job, h.rules)
		e.Slot.leave(c, job, h.rules)
		e.Count.keep(c, job, h.rules)
		if !h.rules.CountedInStep {
			e.Count.count(c, job, h.rules)
		}
	default:
		r.Refused = []string{job}
	}
	h.leave(c, m)
	return r
}

// GiveBack returns jobs of one list to the end of their queue that is popped
// next, the newest first, so that the oldest is popped first.
//
//	KEYS place, list, queue
//	ARGV generation, call, length known, jobs
//
// A whole list that is as long as the owner knows it goes by LMOVE, no job's
// bytes sent. Otherwise each job goes as in Move.
func GiveBack(c *call, h Head, list, queue string, known int, jobs []string) Reply {
	m, v := h.enter(c)
	if v != OK {
		return Reply{Verdict: v}
	}
	r := Reply{Verdict: OK}
	key := h.list(list)
	n, err := c.llen(key)
	if err == nil && n == known && n == len(jobs) {
		for range jobs {
			if _, err := c.giveBack(key, queue); err != nil {
				left, _ := c.lrange(key)
				r.Refused = left
				break
			}
		}
	} else {
		for _, job := range jobs {
			if c.push(queue, job, false) != nil {
				r.Refused = append(r.Refused, job)
				continue
			}
			c.lrem(key, job) //nolint:errcheck // absent is fine
		}
	}
	unname(c, h.Address, list)
	h.leave(c, m)
	return r
}

// Put writes a job into a destination in another slot than that of its list.
// An ack in the slot of the list follows. Put itself does not check the fence.
//
//	KEYS destination
//	ARGV new bytes
func Put(c *call, job string, to Destination) Reply {
	c.hdel("", "") // a write first: nothing is refused for want of memory
	if to.write(c, job) != nil {
		return Reply{Verdict: OK, Refused: []string{job}}
	}
	return Reply{Verdict: OK}
}

func count(jobs []string, job string) (n int) {
	for _, j := range jobs {
		if j == job {
			n++
		}
	}
	return n
}
