package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe/internal/keys"
)

// decided holds a rescuer's verdict against what has in fact happened to a job.
func (b *book) decided(s *state, from string, now []string) {
	if !b.w.plan.poisoned() {
		return
	}
	s.deaths++
	apart := keys.Suspects("")
	switch {
	case len(now) == 1 && now[0] == keys.Dead:
		s.dead = true
		b.w.seen[map[bool]string{false: "job dead: a killer", true: "job dead: innocent, its processes died as often"}[s.plan.Kills == Innocent]]++
		if s.deaths < limit || !strings.HasSuffix(from, apart) {
			b.w.fail("%s went to the dead set after %d recoveries, out of %s", s.name, s.deaths, from)
		}
		s.deaths = b.recoveries(s) // of a copy that is still there
		return
	case len(now) == 1 && strings.HasSuffix(now[0], apart) != (s.deaths >= suspect):
		b.w.fail("%s went to %s after %d recoveries", s.name, now[0], s.deaths)
	case s.deaths >= limit && strings.HasSuffix(from, apart):
		b.w.fail("%s went to %s after %d recoveries, the last as a suspect", s.name, strings.Join(now, " "), s.deaths)
	}
	if n := b.recoveries(s); n != s.deaths {
		b.w.fail("%s was recovered %d times, and %d are counted", s.name, s.deaths, n)
	}
}

// recoveries are those that Redis remembers of a job.
func (b *book) recoveries(s *state) int {
	log := keys.RecoveredLog
	if b.w.plan.Cluster {
		log = keys.ClusterRecoveredLog(s.plan.Queue)
	}
	return strings.Count(b.w.redis.HGet(log, s.jid()), `"at":`)
}

// cleared begins to count anew for those of which nothing is remembered.
func (b *book) cleared() {
	for _, s := range b.allJobs() {
		if s.deaths > 0 && b.recoveries(s) == 0 {
			s.deaths = 0
		}
	}
}

// jid is the job's on the wire.
func (s *state) jid() string { return fmt.Sprintf("%024x", s.number) }

// rests reports whether a job is in the dead set, and is where it belongs.
func (s *state) rests(places []string) bool {
	return (s.dead || s.plan.Dies) && len(places) > 0 && !slices.ContainsFunc(places, func(place string) bool { return place != keys.Dead })
}
