package sim

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
)

// In a part of the plans limits have circuit breakers, and handlers have limits rest. The book keeps an account of each breaker: it
// learns from the moves that end runs, as docs/limits.md says, and after every command Redis must say the same. A probe must come after
// the end of a rest, alone, and each run must have asked while its rule did not rest, or as the probe.

// Breaker is the breaker of a limit of a plan.
type Breaker struct {
	Failures int
	Rest     time.Duration // 0: there is none
}

// drawBreakers gives limits breakers. Jobs fail more often then.
func drawBreakers(t *rapid.T, p *Plan) {
	for i := range p.Limits {
		if i > 0 && draw(t, "breaker", 0, 3) == 0 {
			continue
		}
		l := &p.Limits[i]
		l.Breaker = Breaker{Failures: pick(t, "failures", 1, 1, 2, 3, 0), Rest: span(t, "rest", [2]int{1000, 3000}, [2]int{3000, 12000}, [2]int{15000, 40000})}
		if draw(t, "alone", 0, 2) == 2 {
			l.AtOnce, l.Rate = 0, 0
		}
	}
	for i := range p.Jobs {
		switch draw(t, "ends", 0, 3) {
		case 2:
			p.Jobs[i].Fails = draw(t, "fails", 1, 3)
		case 3:
			p.Jobs[i].Rests = span(t, "rests", [2]int{1, 2000}, [2]int{2000, 20000})
		}
	}
	for range draw(t, "troubles of rests", 0, 1) {
		p.Troubles = append(p.Troubles, Trouble{At: span(t, "at", [2]int{0, 15000}), For: span(t, "for", [2]int{1, 6000}), Key: keys.Rest(p.base(queues[0]), p.someRule())})
	}
}

// breaker is what the book knows of the breaker of a rule.
type breaker struct {
	Breaker
	failures int
	ends     float64            // of the rest, or of one that waits for a probe; 0: it is closed
	probes   map[string]float64 // jid -> the end that it has set
	touched  time.Time          // the last time that Redis has written it

	before map[string]bool    // whom it would have let in before the last command; "": everybody
	began  map[string]float64 // jid -> the end that it had set as a probe when it last began
}

// again reports whether a probe begins again, for the same rest: it takes no other token.
func (k *breaker) again(jid string) bool {
	if k == nil || k.probes[jid] == 0 {
		return false
	}
	before := k.began[jid]
	k.began[jid] = k.probes[jid]
	return before == k.probes[jid]
}

// rests reports whether nobody but a probe may come in.
func (k *breaker) rests() bool { return k != nil && k.ends > seconds(time.Now()) }

// admits tells whom the breaker lets in now: the probe, and "" if it does not rest.
func (k *breaker) admits() map[string]bool {
	all := map[string]bool{"": !k.rests()}
	for jid, end := range k.probes {
		all[jid] = near(end, k.ends)
	}
	return all
}

// rest has a handler make its limits rest.
func (p *process) rest(ctx context.Context, s *state) {
	for i, l := range p.w.plan.Limits {
		if s.plan.Rests == 0 || l.Breaker.Rest == 0 || l.Queue != "" && l.Queue != s.plan.Queue {
			continue
		}
		if err := troupe.Rest(ctx, "l"+strconv.Itoa(i), s.plan.Rests); err != nil && ctx.Err() == nil && !p.dead {
			p.w.fail("%s has a limit rest: %v", s.name, err)
		}
	}
}

// readBreaker reads what Redis knows of a breaker; not ok if its key is of a wrong type.
func (b *book) readBreaker(r *rule) (now breaker, ok bool) {
	key := keys.Rest(r.base, r.id)
	now.probes = map[string]float64{}
	switch b.w.redis.Type(key) {
	case "string":
		return now, false
	case "hash":
		fields, _ := b.w.redis.HKeys(key)
		for _, field := range fields {
			value, _ := strconv.ParseFloat(b.w.redis.HGet(key, field), 64)
			switch jid, probe := strings.CutPrefix(field, "~"); {
			case probe:
				now.probes[jid] = value
			case field == "ends":
				now.ends = value
			case field == "failures":
				now.failures = int(value)
			}
		}
		if len(fields) > 0 && b.w.redis.TTL(key) == 0 {
			b.fails(r, "its rest is there for ever: %+v", now)
		}
	}
	return now, true
}

// lookAtBreaker holds what Redis knows of a breaker against what the book has learned.
func (b *book) lookAtBreaker(r *rule, o *owner, words []string, before map[string][]string) {
	k := r.breaker
	k.before = k.admits()
	now, ok := b.readBreaker(r)
	last := later(k.touched, time.UnixMicro(int64(k.ends*1e6)))
	if !ok || !b.isDefined(r) || time.Now().Before(b.w.full) || time.Since(last) > time.Hour { // Redis may have forgotten it, or not written it
		k.failures, k.ends, k.probes = now.failures, now.ends, now.probes
		return
	}
	for _, end := range endsIn(words, r) {
		if s := b.holderOf(end.jid); s != nil && b.claims(o, before[s.name]) > b.claims(o, b.where[s.name]) {
			k.learn(end.jid, end.said)
			k.touched = time.Now()
		}
	}
	at := seconds(time.Now())
	probes := slices.SortedFunc(maps.Keys(now.probes), func(x, y string) int { return strings.Compare(x, y) })
	for _, jid := range probes {
		switch s := b.holderOf(jid); {
		case now.probes[jid] == k.probes[jid]:
		case s == nil:
			b.fails(r, "%s is a probe", jid)
		case k.ends == 0:
			b.fails(r, "%s is a probe, and the breaker is closed", s.name)
		case k.ends > at:
			b.fails(r, "%s is let in as a probe by %s, %.3f s before the rest ends", s.name, stepOf(words), k.ends-at)
		case !near(now.probes[jid], at+k.Rest.Seconds()):
			b.fails(r, "%s is let in as a probe by %s, and the next one may come in %.3f s", s.name, stepOf(words), now.probes[jid]-at)
		default:
			k.ends, k.touched = now.probes[jid], time.Now()
			k.probes[jid] = k.ends
			b.w.seen["probe let in by "+stepOf(words)]++
		}
	}
	if now.failures != k.failures || !near(now.ends, k.ends) || len(now.probes) != len(k.probes) {
		b.fails(r, "behind %s its breaker is %+v, expected %+v", stepOf(words), now, *k)
	}
	k.ends = now.ends // to the microsecond
}

func near(x, y float64) bool { return x-y < 1e-5 && y-x < 1e-5 }

// learn takes note of how a run has ended.
func (k *breaker) learn(jid, said string) {
	now := seconds(time.Now())
	_, probe := k.probes[jid]
	delete(k.probes, jid)
	open := k.ends > 0
	rest, asked := strings.CutPrefix(said, "rest ")
	switch {
	case asked:
		d, _ := strconv.ParseFloat(rest, 64)
		k.ends, k.failures = max(k.ends, now+d), 0
	case said == "failed" && probe:
		k.ends = max(k.ends, now+k.Rest.Seconds())
	case said == "failed" && !open && k.Failures > 0:
		if k.failures++; k.failures >= k.Failures {
			k.ends, k.failures = now+k.Rest.Seconds(), 0
		}
	case said == "ok" && probe:
		k.ends, k.failures, k.probes = 0, 0, map[string]float64{}
	case said == "ok" && !open:
		k.failures = 0
	}
}

// end is what a move tells the breaker of a rule.
type end struct{ jid, said string }

// endsIn are the ends of runs that a command tells the breaker of a rule, in their order.
func endsIn(words []string, r *rule) (all []end) {
	if script(words) != "settle" {
		return nil
	}
	for i := 0; i+3 < len(words); i++ {
		n, err := strconv.Atoi(words[i+1])
		if words[i] != "breaker" || words[i+2] != r.base || err != nil || i+2+n > len(words) {
			continue
		}
		for k := i + 4; k+1 < i+2+n; k += 2 {
			if words[k] == r.id {
				all = append(all, end{words[i+3], words[k+1]})
			}
		}
	}
	return all
}

// asked is a job that a command asks for.
type asked struct {
	jid, how string
	rules    []string
}

// askedIn are the jobs that a command asks for.
func askedIn(words []string) (all []asked) {
	if script(words) != "admit" {
		return nil
	}
	n, _ := strconv.Atoi(words[2])
	for args := words[3+n+4:]; len(args) > 2; {
		how := args[0]
		k, _ := strconv.Atoi(args[1])
		rules, rest := args[2:2+k], args[2+k:]
		if how == "ahead" {
			k, _ = strconv.Atoi(rest[0])
			for _, jid := range rest[1 : 1+k] {
				all = append(all, asked{jid, how, rules})
			}
			args = rest[1+k:]
			continue
		}
		all, args = append(all, asked{rest[4], how, rules}), rest[7:]
	}
	return all
}

// noteAsked notes which jobs may have been let in by the last command: of none of their rules a rest has kept them out.
func (b *book) noteAsked(o *owner, words []string) {
	for _, a := range askedIn(words) {
		s := b.holderOf(a.jid)
		if s == nil || a.how == "force" || o.place == nil {
			continue
		}
		rules := b.rulesOf(s)
		if a.how == "ahead" && slices.ContainsFunc(rules, func(r *rule) bool { return r.breaker != nil }) {
			continue // it is to ask again
		}
		may := true
		for _, r := range rules {
			if k := r.breaker; k != nil {
				now := k.admits()
				may = may && (k.before[""] || k.before[a.jid] || now[""] || now[a.jid])
			}
		}
		if s.asked == nil {
			s.asked = map[string]bool{}
		}
		s.asked[o.name] = s.asked[o.name] || may
	}
}

// hasAsked judges that a run has asked while none of its rules rested.
func (b *book) hasAsked(o *owner, s *state) {
	may, asked := s.asked[o.name]
	delete(s.asked, o.name)
	if !may && b.w.fell.IsZero() && (asked || s.copies == 0) { // two copies of it may begin in one call
		why := "while a limit rests"
		if !asked {
			why = "and has not asked its limits"
		}
		b.w.fail("%s begins in %s %s", s.name, o.name, why)
	}
}
