package sched

import (
	"hash/maphash"
	"time"
)

// How long a member that could not be moved is left alone: doubled each time.
const (
	firstHold = 5 * time.Second
	maxHold   = time.Minute

	// What is known of held members goes when there are this many: they are
	// tried and reported again, nothing else.
	maxHeld = 100_000
)

// held are the members that could not be moved. The zero value holds none.
type held struct {
	seed maphash.Seed
	by   map[uint64]hold
}

type hold struct {
	till time.Time
	wait time.Duration
}

// has tells whether a member is to be left alone for now, and whether it is known.
func (h *held) has(member string, now time.Time) (left, known bool) {
	if len(h.by) == 0 {
		return false, false
	}
	one, known := h.by[maphash.String(h.seed, member)]
	return known && now.Before(one.till), known
}

// add leaves a member alone for a while; first tells whether this is news.
func (h *held) add(member string, now time.Time) (first bool) {
	if h.by == nil || len(h.by) >= maxHeld {
		h.seed, h.by = maphash.MakeSeed(), make(map[uint64]hold)
	}
	key := maphash.String(h.seed, member)
	one, known := h.by[key]
	one.wait = min(maxHold, max(firstHold, 2*one.wait))
	one.till = now.Add(one.wait)
	h.by[key] = one
	return !known
}

// remove forgets members that are gone, or that no fault of theirs has kept.
func (h *held) remove(members []any) {
	for i := 0; i < len(members) && len(h.by) > 0; i++ {
		delete(h.by, maphash.String(h.seed, *members[i].(*string)))
	}
}

// first returns when the first of them is to be tried again, zero if there is none.
func (h *held) first(now time.Time) (next time.Time) {
	for key, one := range h.by {
		switch late := now.Sub(one.till); {
		case late < 0:
			next = earliest(next, one.till)
		case late > maxHold:
			delete(h.by, key) // somebody else has taken it out of the set
		}
	}
	return next
}
