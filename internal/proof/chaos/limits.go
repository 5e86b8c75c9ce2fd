package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Every fourth job is under a limit by its key, and two hundred of each two thousand are under a rate, too: they are pushed in one
// go, so that the rate is reached. Every eighth has a breaker alone, which each failure opens. All limits are told by task numbers
// alone, so that the account can be made without Redis.
const (
	limitKeys   = 5 // so many of them
	limitMost   = 2 // jobs of a key at once
	rateBurst   = 5
	breakerRest = 200 * time.Millisecond
)

// broken reports whether a job, or that of which it is the duplicate, has a breaker.
func broken(n int) bool { return (n < firstChild || n >= duplicateNum) && n%8 == 5 && limitKey(n) == 0 }

// limitKey is the key of a job under limits, and of its duplicate; 0: it is under none.
func limitKey(n int) int {
	if n >= duplicateNum {
		n -= duplicateNum
	}
	if n >= firstChild || n%4 != 3 && !rated(n) {
		return 0
	}
	return 1 + n/4%limitKeys
}

// rated reports whether a job, or that of which it is the duplicate, is under the rate.
func rated(n int) bool { return (n < firstChild || n >= duplicateNum) && n/200%10 == 1 }

// rate is how many rated jobs start in a second: a quarter more than are pushed.
func (c *Config) rate() int { return 1 + int(1.25*float64(c.Jobs)/10/c.Duration.Seconds()) }

// LimitsReport is what a run has shown of limits.
type LimitsReport struct {
	Jobs    int // under limits, done
	Held    int // times that a job was held
	Rested  int // of these, by a breaker
	Most    int // jobs of a key at once
	Over    int // runs that began beside the last ones of a limit that were fenced, or whose slots a replica did not know
	InTwo   int // most starts of rated jobs within two seconds
	Allowed int // these may be
	Slots   int // that were taken when all jobs were done
	Left    []string
}

// holding is a run of a job under limits, from its first instant to its last.
type holding struct {
	r        *run
	to       time.Time // its last instant with its slot: then another run of the job has taken that over, or its process was fenced
	end      time.Time
	unknowns bool // a replica that was promoted has forgotten its slot, or shares it with a copy of the job
}

// limits holds the runs of jobs under limits against each other. At each start no more of a key run than the limit says, but
// for handlers that go on when their jobs are another process's, and runs of whose slots Redis has lost its memory.
func (s *storm) limits(rep *Report, byJob map[int][]*run, done map[int]bool) {
	s.t.Helper()
	if s.system.Slots == nil {
		return
	}
	l := &rep.Limits
	var all []*holding
	for n, of := range byJob {
		if limitKey(n) == 0 {
			continue
		}
		if done[n] {
			l.Jobs++
		}
		unknown := s.rolledBack(n, of, true) > 0
		for i, r := range of {
			h := &holding{r: r, end: r.end, unknowns: unknown}
			if h.end.IsZero() {
				h.end = r.d.p.Ended()
			}
			h.to = h.end
			if i+1 < len(of) {
				h.to = earlier(h.to, of[i+1].start)
			}
			if at, ok := s.taken(h); ok {
				h.to = earlier(h.to, at)
			}
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b *holding) int { return a.r.start.Compare(b.r.start) })
	for key := 1; key <= limitKeys; key++ {
		s.keyOf(rep, key, all)
	}
	s.rated(rep, all)
}

// taken is the first instant at which the slot of a run may have been another's: its process was away and was fenced, or died
// before it could tell. The job goes back among those that are held, and older ones may be let in before it.
func (s *storm) taken(h *holding) (at time.Time, ok bool) {
	for _, sp := range s.spans {
		if !sp.away() || !sp.hits(h.r.d) || !h.end.After(sp.from) || h.r.start.After(sp.to.Add(learning)) {
			continue
		}
		untold := !h.r.d.p.Ended().IsZero() && h.r.d.p.Ended().Before(sp.to.Add(2*Lease+learning))
		if sp.fenced != nil && !sp.fenced[h.r.d] && !untold {
			continue
		}
		if from := later(sp.from, h.r.start); !ok || from.Before(at) {
			at, ok = from, true
		}
	}
	return at, ok
}

// keyOf judges the runs of a key.
func (s *storm) keyOf(rep *Report, key int, all []*holding) {
	l := &rep.Limits
	var running []*holding
	for _, h := range all {
		if limitKey(h.r.job) != key {
			continue
		}
		at := h.r.start
		running = append(slices.DeleteFunc(running, func(o *holding) bool { return !o.end.After(at) }), h)
		var with []*run
		for _, o := range running {
			if o.to.After(at) && !o.unknowns {
				with = append(with, o.r)
			}
		}
		jobs := map[int]bool{}
		for _, o := range running {
			jobs[o.r.job] = true
		}
		l.Most = max(l.Most, len(with))
		switch {
		case len(with) > limitMost && s.cfg.Fsync == "always":
			lines := []string{fmt.Sprintf("%d jobs of key %d at once, at most %d may be:", len(with), key, limitMost)}
			for _, r := range with {
				lines = append(lines, s.story(r.job, []*run{r}))
			}
			rep.Broken = append(rep.Broken, strings.Join(lines, "\n"))
		case len(jobs) > limitMost:
			l.Over++
		}
	}
}

// rated judges the starts of rated jobs within two seconds. Three seconds' tokens are allowed, since a start may be late by a
// little; those of a process that was away begin when it is back, and do not count. A replica that is promoted has forgotten
// the tokens of the last second.
func (s *storm) rated(rep *Report, all []*holding) {
	l := &rep.Limits
	rate := s.cfg.rate()
	l.Allowed = 3*rate + rateBurst
	var starts []time.Time
	for _, h := range all {
		if rated(h.r.job) && !s.late(h.r) {
			starts = append(starts, h.r.start)
		}
	}
	for i, from := range starts {
		n := 0
		for n < len(starts)-i && starts[i+n].Sub(from) < 2*time.Second {
			n++
		}
		forgot := slices.ContainsFunc(s.spans, func(sp *span) bool {
			return sp.forgot != nil && sp.from.Before(from.Add(2*time.Second)) && sp.to.Add(5*time.Second).After(from)
		})
		switch {
		case forgot && n > l.Allowed+2*rate+rateBurst, !forgot && n > l.Allowed && s.cfg.Fsync == "always":
			rep.Broken = append(rep.Broken, fmt.Sprintf("%d rated jobs began within 2 s of %.3f s, at most %d may", n, from.Sub(s.all[0].started).Seconds(), l.Allowed))
		case !forgot:
			l.InTwo = max(l.InTwo, n)
		}
	}
}

// late reports whether a run was let in before its process, or Redis, was away for a while.
func (s *storm) late(r *run) bool {
	return slices.ContainsFunc(s.spans, func(sp *span) bool {
		return sp.away() && sp.hits(r.d) && r.start.After(sp.from) && r.start.Before(sp.to.Add(learning))
	})
}

// awaitSlots waits until no slot is taken: all jobs are done. It returns how many were at first, and what stays for longer
// than a slot lives.
func (s *storm) awaitSlots() (first int, left []string) {
	s.t.Helper()
	if s.system.Slots == nil {
		return 0, nil
	}
	for since := time.Now(); time.Since(since) < 90*time.Second; time.Sleep(500 * time.Millisecond) { // other processes: nothing tells
		s.revive()
		var err error
		if left, err = s.system.Slots(context.Background(), s.rdb); err != nil {
			s.t.Fatalf("which slots are taken: %v", err)
		}
		first = max(first, len(left))
		if len(left) == 0 {
			break
		}
	}
	return first, left
}
