package sched

import (
	"hash/maphash"
	"time"
)

// How long a member that could not be moved is left alone: doubled each time.
const (
	firstStuck = 5 * time.Second
	mostStuck  = time.Minute

	// What is known of stuck members goes when there are this many: they are
	// tried and reported again, nothing else.
	maxStuck = 100_000
)

// stuck are the members that could not be moved. The zero value has none.
type stuck struct {
	seed maphash.Seed
	by   map[uint64]delay
}

type delay struct {
	till time.Time
	wait time.Duration
}

// has tells whether a member is to be left alone for now, and whether it is known.
func (s *stuck) has(member string, now time.Time) (left, known bool) {
	if len(s.by) == 0 {
		return false, false
	}
	one, known := s.by[maphash.String(s.seed, member)]
	return known && now.Before(one.till), known
}

// add leaves a member alone for a while; first tells whether this is news.
func (s *stuck) add(member string, now time.Time) (first bool) {
	if s.by == nil || len(s.by) >= maxStuck {
		s.seed, s.by = maphash.MakeSeed(), make(map[uint64]delay)
	}
	key := maphash.String(s.seed, member)
	one, known := s.by[key]
	one.wait = min(mostStuck, max(firstStuck, 2*one.wait))
	one.till = now.Add(one.wait)
	s.by[key] = one
	return !known
}

// remove forgets members that are gone, or that no fault of theirs has kept.
func (s *stuck) remove(members []any) {
	for i := 0; i < len(members) && len(s.by) > 0; i++ {
		delete(s.by, maphash.String(s.seed, *members[i].(*string)))
	}
}

// first returns when the first of them is to be tried again, zero if there is none.
func (s *stuck) first(now time.Time) (next time.Time) {
	for key, one := range s.by {
		switch late := now.Sub(one.till); {
		case late < 0:
			next = earliest(next, one.till)
		case late > mostStuck:
			delete(s.by, key) // somebody else has taken it out of the set
		}
	}
	return next
}
