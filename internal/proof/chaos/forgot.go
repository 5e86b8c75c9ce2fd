package chaos

import (
	"slices"
	"strings"
	"time"
)

// What Redis may forget when a replica takes over is what the master did after the replica was cut off, and no more. So a
// job is forgotten only if it was pushed then; and it runs again only if the replica has it, or a process that has pushed it.

// unpushed reports whether Redis has forgotten the push of a job that was pushed for itself.
func (s *storm) unpushed(m *memory, n int) bool {
	at := s.accepted[n]
	return at.After(m.since) && at.Before(m.died) && m.left[n] == ""
}

// forgotten reports whether Redis has lost the job when it died: it had it before,
// nobody had ended it, and it was not there when Redis was back.
func (s *storm) forgotten(n int) bool {
	return slices.ContainsFunc(s.memory, func(m *memory) bool { return s.unpushed(m, n) })
}

// forgottenWith reports whether Redis has forgotten what job n has pushed with its ack, or what stood behind it: with the
// push of n, and no job is left from which it would come again.
func (s *storm) forgottenWith(n, c int) bool {
	return slices.ContainsFunc(s.memory, func(m *memory) bool {
		return s.unpushed(m, n) && !slices.ContainsFunc(append(before(c), c), func(p int) bool { return m.left[p] != "" })
	})
}

// before are the jobs whose acks lead to a job that was not pushed for itself.
func before(c int) (all []int) {
	if c < firstChild || c >= duplicateNum {
		return nil
	}
	n := c % firstChild
	all = append(all, n)
	for i := 0; c >= firstLink && c < firstMember && link(n, i) < c; i++ {
		all = append(all, link(n, i))
	}
	return append(all, waitsFor(c)...)
}

// rolledBack is how often a job may have come back to a replica that was promoted: a run of it ended, or was fetched, when
// the replica was cut off; or it was fetched, and held or not begun. It comes back in each place where the replica has it. With absent it is one that the replica does
// not have either, since its push is forgotten: its process, if it has not heard of its ack, acks it again, with all that it has pushed.
func (s *storm) rolledBack(n int, of []*run, absent bool) (times int) {
	for _, sp := range s.spans {
		if sp.forgot == nil {
			continue
		}
		copies, reached := 0, 0
		if place := sp.forgot.left[n]; place != "" {
			copies = 1 + strings.Count(place, " and ")
		} else if absent && s.unpushed(sp.forgot, n%firstChild) {
			copies = 1
		}
		for _, r := range slices.Concat(of, s.asked[n]) {
			from, to := s.reach(sp, r.d)
			if !r.start.After(to) && (r.end.IsZero() || r.end.After(from)) {
				reached++
			}
		}
		if at, ok := s.accepted[n]; ok && at.Before(sp.to) && (len(of) == 0 || of[0].start.After(sp.from)) {
			reached++ // a process may have had it in hand, and not have begun it: it writes back what the replica has in its queue
		}
		times += min(copies, reached)
	}
	return times
}

// reach is the time of a fault for a daemon, with that of others beside it in which its acks did not arrive and it learned
// nothing.
func (s *storm) reach(sp *span, d *daemon) (from, to time.Time) {
	if known, ok := sp.reach[d]; ok {
		return known[0], known[1]
	}
	from, to = sp.from.Add(-acking), sp.to.Add(learning)
	for more := true; more; {
		more = false
		for _, other := range s.spans {
			a, b := other.from.Add(-acking), other.to.Add(learning)
			if other.away() && other.hits(d) && !b.Before(from) && !a.After(to) && (a.Before(from) || b.After(to)) {
				from, to, more = earlier(a, from), later(b, to), true
			}
		}
	}
	if sp.reach == nil {
		sp.reach = map[*daemon][2]time.Time{}
	}
	sp.reach[d] = [2]time.Time{from, to}
	return from, to
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
