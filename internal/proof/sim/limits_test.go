package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// In a part of the plans jobs are under limits. The book looks at the slots of each rule after every command: no more of them
// than the limit, but those that were taken again after Redis had forgotten them; none of a job that is gone for longer than a
// slot lives; and every run has one. So no more run at once than docs/limits.md promises. It looks at held jobs, too: they
// leave in order, nobody passes them, and none waits beside a free slot.

// Limit is a limit of a plan.
type Limit struct {
	Queue  string // "": of all classes
	AtOnce int
	Rate   int // of two seconds
	Keys   int // so many keys, by the number of the job; 0: all count together

	Breaker Breaker // with neither AtOnce nor Rate it is there alone
}

// The numbers of limits in a run.
const (
	limitsBeat = 2 * time.Second                           // between two beats
	slotLife   = max(lease, 3*limitsBeat) + 15*time.Second // of a slot without a sign of life
	onItsWay   = time.Minute                               // of the slot of a job that was let in; both end with a whole second
	heldFor    = 2 * time.Second                           // a job beside a free slot
	untold     = 6 * time.Second                           // likewise, if a fault may have taken from the leader what it is told
	onTheirWay = 16                                        // jobs of a limit that has a breaker alone, let in and not started
	places     = 3                                         // by which a job of a key may pass others
)

func (l Limit) of(number int) troupe.Limit {
	out := troupe.Limit{Name: "l" + strconv.Itoa(number), AtOnce: l.AtOnce, Rate: l.Rate}
	if l.Rate > 0 {
		out.Per, out.Burst = 2*time.Second, 2
	}
	if l.Breaker.Rest > 0 {
		out.Breaker = &troupe.Breaker{Failures: l.Breaker.Failures, Rest: l.Breaker.Rest}
	}
	if l.Keys > 0 {
		out.Key = func(p *troupe.Payload) (string, error) { return strconv.Itoa(int(jidNumber(p.JID())) % l.Keys), nil }
	}
	return out
}

func jidNumber(jid string) int64 {
	n, _ := strconv.ParseInt(strings.TrimLeft(jid, "0"), 16, 64)
	return n
}

// limits are those of all classes, or of a queue.
func (p Plan) limits(queue string) (all []troupe.Limit) {
	for i, l := range p.Limits {
		if l.Queue == queue {
			all = append(all, l.of(i))
		}
	}
	return all
}

// drawLimits has jobs be under limits.
func drawLimits(t *rapid.T, p *Plan) {
	for i := range draw(t, "limits", 1, 3) {
		l := Limit{Queue: pick(t, "limit of", "", "", "a", "b"), Keys: pick(t, "keys", 0, 0, 2, 3)}
		if i > 0 && draw(t, "rate", 0, 1) == 1 {
			l.Rate = draw(t, "rate", 1, 6)
		} else {
			l.AtOnce = draw(t, "at once", 1, 3)
		}
		p.Limits = append(p.Limits, l)
	}
	for i := range p.Jobs {
		if draw(t, "long", 0, 7) == 7 && p.Jobs[i].Items == 0 {
			p.Jobs[i].Lasts += span(t, "lasts", [2]int{10000, 40000})
		}
	}
	for range draw(t, "troubles of limits", 0, 2) {
		tr := Trouble{At: span(t, "at", [2]int{0, 1000}, [2]int{0, 15000}), For: span(t, "for", [2]int{1, 300}, [2]int{300, 6000})}
		switch draw(t, "key", 0, 4) {
		case 1:
			tr.Key = keys.HeldRules(p.base(queues[0]))
		case 2:
			tr.Key = keys.Slots(p.base(queues[0]), p.someRule())
		case 3:
			tr.Key = keys.Held(p.base(queues[0]), p.someRule())
		case 4:
			tr.Key = keys.Limits(p.base(queues[0]))
		}
		p.Troubles = append(p.Troubles, tr)
	}
}

func (p Plan) base(queue string) string { return keys.LimitBase(queue, p.Cluster) }

func (p Plan) someRule() string {
	if p.Limits[0].Keys > 0 {
		return "l0:0"
	}
	return "l0"
}

// rule is what the book knows of a rule of a base.
type rule struct {
	base, id string
	limit    int
	every    float64 // of a rate: seconds

	slots, before map[string]float64 // live ones, after the last command and before it
	held, had     map[string]float64 // what it holds
	order         []string           // of had
	gone          map[string]time.Time
	free          time.Time // since then it holds jobs beside a free slot
	back          float64   // of a rate
	tokens        int
	starts        int
	over          int // slots above the limit that were taken again
	breaker       *breaker
}

// counts reports whether a rule has its jobs count while they run.
func (r *rule) counts() bool { return r.limit > 0 && r.every == 0 }

// ruled is a run of a job under limits.
type ruled struct {
	p     *process
	s     *state
	rules []*rule
	twice bool // another run of the job was there: both have one slot, which ends with the first
}

// limits is the part of the book that is about them.
type limitsBook struct {
	rules []*rule

	mu   sync.Mutex // guards runs: handlers of a process that is gone return by themselves
	runs map[*ruled]bool
}

// rulesOf are the rules of a job that runs out of its queue.
func (b *book) rulesOf(s *state) (all []*rule) {
	p := &b.w.plan
	for i, l := range p.Limits {
		if l.Queue != "" && l.Queue != s.plan.Queue {
			continue
		}
		id := "l" + strconv.Itoa(i)
		if l.Keys > 0 {
			id += ":" + strconv.Itoa(s.number%l.Keys)
		}
		base := p.base(s.plan.Queue)
		at := slices.IndexFunc(b.limits.rules, func(r *rule) bool { return r.base == base && r.id == id })
		if at < 0 {
			r := &rule{base: base, id: id, limit: l.AtOnce, gone: map[string]time.Time{}}
			if l.Rate > 0 {
				r.limit, r.every = 2, 2/float64(l.Rate)
			}
			if l.Breaker.Rest > 0 {
				r.breaker = &breaker{Breaker: l.Breaker, probes: map[string]float64{}, began: map[string]float64{}}
			}
			at, b.limits.rules = len(b.limits.rules), append(b.limits.rules, r)
		}
		all = append(all, b.limits.rules[at])
	}
	return all
}

func (b *book) fails(r *rule, format string, args ...any) {
	b.w.fail("limit %s%s: %s", r.base, r.id, fmt.Sprintf(format, args...))
}

// settled reports whether nothing has happened for so long that could delay something.
func (b *book) settled(d time.Duration) bool {
	last := later(b.w.refusing, b.w.loading)
	last = later(last, b.w.full)
	for _, p := range b.w.all {
		last = later(last, p.faulted)
	}
	return time.Since(last) > d
}

// untroubled reports whether nothing has happened at all.
func (b *book) untroubled() bool {
	return b.w.loading.IsZero() && b.w.refusing.IsZero() && b.w.full.IsZero() && !slices.ContainsFunc(b.w.all, func(p *process) bool { return !p.faulted.IsZero() })
}

// lookAtLimits compares what a command has changed of slots and held jobs with what it may.
func (b *book) lookAtLimits(o *owner, words []string, before map[string][]string) {
	if len(b.w.plan.Limits) == 0 {
		return
	}
	for _, s := range b.allJobs() {
		if len(b.where[s.name]) > 0 {
			b.rulesOf(s)
		}
		for _, place := range minus(b.where[s.name], before[s.name]) {
			if strings.HasPrefix(place, "held ") {
				b.w.seen["job held"]++
			}
		}
		for _, place := range minus(before[s.name], b.where[s.name]) {
			if strings.HasPrefix(place, "held ") {
				b.w.seen["held job let in by "+stepOf(words)]++
			}
		}
	}
	for _, r := range b.limits.rules {
		b.readRule(r)
		if r.breaker != nil {
			b.lookAtBreaker(r, o, words, before)
		}
		if r.every > 0 {
			b.lookAtRate(r, words)
		} else if r.counts() {
			b.lookAtSlots(r, o, words, before)
		}
		b.lookAtHeld(r, words)
	}
	b.noteAsked(o, words)
}

// readRule reads what Redis knows of a rule.
func (b *book) readRule(r *rule) {
	r.before, r.had, r.order = r.slots, r.held, slices.SortedFunc(keysOfMap(r.held), func(x, y string) int {
		return cmp.Or(cmp.Compare(r.held[x], r.held[y]), strings.Compare(x, y))
	})
	r.slots, r.held = map[string]float64{}, map[string]float64{}
	if slots := keys.Slots(r.base, r.id); b.w.redis.Type(slots) == "zset" {
		all, _ := b.w.redis.SortedSet(slots)
		for member, ends := range all {
			if ends > seconds(time.Now()) {
				r.slots[member] = ends
			}
		}
	}
	if held := keys.Held(r.base, r.id); b.w.redis.Type(held) == "zset" {
		all, _ := b.w.redis.SortedSet(held)
		maps.Copy(r.held, all)
	}
}

func keysOfMap(m map[string]float64) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// forced reports whether a command takes slots again.
func forced(words []string) bool {
	return slices.ContainsFunc(askedIn(words), func(a asked) bool { return a.how == "force" })
}

func (b *book) lookAtSlots(r *rule, o *owner, words []string, before map[string][]string) {
	if b.w.fell.IsZero() && len(r.slots) > r.limit+r.over {
		switch {
		case !b.settled(slotLife+limitsBeat) && script(words) == "admit": // a process that was away has found its slot given to another one
			r.over = len(r.slots) - r.limit
			b.w.seen["slot taken again above the limit"]++
		default:
			b.fails(r, "%d have a slot, which is for %d: %v, by %s", len(r.slots), r.limit, sortedKeys(r.slots), stepOf(words))
		}
	}
	r.over = max(0, min(r.over, len(r.slots)-r.limit))
	for _, member := range sortedKeys(r.slots) {
		jid, _, named := strings.Cut(member, "~")
		s := b.holderOf(jid)
		if s == nil {
			b.fails(r, "%s has a slot", member)
			continue
		}
		if ends := time.Duration((r.slots[member] - seconds(time.Now())) * 1e9); ends > onItsWay+time.Second {
			b.fails(r, "the slot of %s ends in %s", s.name, ends)
		}
		switch {
		case b.atWork(s) || named && b.runsOn(s):
			delete(r.gone, member)
		case r.gone[member].IsZero():
			r.gone[member] = time.Now()
			if script(words) == "settle" && b.claims(o, before[s.name]) > b.claims(o, b.where[s.name]) && !o.stopping && s.copies == 0 && !named && o.healthyOwner() {
				b.fails(r, "%s has left, and keeps its slot", s.name)
			}
		case time.Since(r.gone[member]) > onItsWay+slotLife+time.Second || time.Since(r.gone[member]) > slotLife+limitsBeat+time.Second && !s.ruby:
			b.fails(r, "%s is gone for %s, and keeps its slot", s.name, time.Since(r.gone[member]))
		}
	}
	for member := range r.gone {
		if _, ok := r.slots[member]; !ok {
			delete(r.gone, member)
		}
	}
	if script(words) == "admit" && !forced(words) {
		b.overtakes(r, o)
	}
}

func sortedKeys(m map[string]float64) []string { return slices.Sorted(keysOfMap(m)) }

// healthyOwner reports whether nothing has happened to an owner for a while.
func (o *owner) healthyOwner() bool { return !o.dead && time.Since(o.faulted) > 3*lease }

// atWork reports whether a job is in progress, or in a queue.
func (b *book) atWork(s *state) bool {
	return slices.ContainsFunc(b.where[s.name], func(place string) bool { return !isNoClaim(place) || isQueue(place) })
}

// runsOn reports whether a run of a job goes on.
func (b *book) runsOn(s *state) bool {
	b.limits.mu.Lock()
	defer b.limits.mu.Unlock()
	for run := range b.limits.runs {
		if run.s == s && !run.p.dead {
			return true
		}
	}
	return false
}

// waiting reports whether some are held still that were before the last command, and how many are not.
func (r *rule) waiting() (gone int, waiting bool) {
	for member := range r.had {
		if _, still := r.held[member]; still {
			waiting = true
		} else {
			gone++
		}
	}
	return gone, waiting
}

// overtakes judges a job that has asked and got a slot beside others that are held.
func (b *book) overtakes(r *rule, o *owner) {
	if _, waiting := r.waiting(); !waiting {
		return
	}
	for _, jid := range sortedKeys(r.slots) {
		if _, had := r.before[jid]; had || strings.Contains(jid, "~") || r.breaker != nil && r.breaker.ends > 0 && r.breaker.admits()[jid] {
			continue // the probe comes in before the others
		}
		if s := b.holderOf(jid); b.claims(o, b.where[s.name]) > 0 && b.w.fell.IsZero() {
			b.fails(r, "%s comes in, and others are held: %v", s.name, len(r.held))
		}
	}
}

// lookAtRate judges the tokens of a rate.
func (b *book) lookAtRate(r *rule, words []string) {
	before, now := r.tokens, seconds(time.Now())
	text, _ := b.w.redis.Get(keys.Rate(r.base, r.id))
	back, _ := strconv.ParseFloat(text, 64)
	if from := max(r.back, now); back > from+r.every/2 {
		r.tokens += int((back-from)/r.every + 0.5)
	}
	r.back = max(r.back, back)
	if gone, waiting := r.waiting(); waiting && r.tokens-before > gone && script(words) == "admit" && !forced(words) && b.w.fell.IsZero() {
		b.fails(r, "%d come in by asking, and others are held", r.tokens-before-gone)
	}
	if back-now > float64(r.limit)*r.every+0.001 {
		b.fails(r, "its tokens are back in %.3f s, %d for one in %.3f s", back-now, r.limit, r.every)
	}
}

// lookAtHeld judges what has become of the jobs that a rule holds.
func (b *book) lookAtHeld(r *rule, words []string) {
	kept := false // one that is older than what follows
	oldest := ""
	for _, member := range r.order {
		age, still := r.held[member]
		switch {
		case still && age == r.had[member]:
			if !kept {
				kept, oldest = true, member
			}
		case !still && kept && script(words) != "locks":
			h, _ := job.ParseHeld(member)
			s := b.jobs[jobOf(string(h.Payload))]
			if slices.Contains(b.where[s.name], h.List) && age != r.had[oldest] {
				b.fails(r, "%s is let in, and an older one is held: %.200s", s.name, oldest)
			}
		}
	}
	room := len(r.slots) < cmp.Or(r.limit, onTheirWay)
	if r.breaker.rests() {
		room = false
	}
	if r.every > 0 {
		room = room && float64(r.limit)*r.every-(max(r.back, seconds(time.Now()))-seconds(time.Now())) > r.every*float64(1+len(r.slots))
	}
	if !b.isDefined(r) {
		room = false
	}
	switch {
	case len(r.held) == 0 || !room || !b.settled(4*lease):
		r.free = time.Time{}
	case r.free.IsZero():
		r.free = time.Now()
	case time.Since(r.free) > untold || time.Since(r.free) > heldFor && b.untroubled():
		b.fails(r, "%d jobs are held for %s beside a free slot, %v", len(r.held), time.Since(r.free), sortedKeys(r.slots))
	}
}

// isDefined reports whether Redis knows what the limit of a rule allows: it may have forgotten that until the next beat.
func (b *book) isDefined(r *rule) bool {
	return b.w.redis.Type(keys.Limits(r.base)) == "hash" && b.w.redis.HGet(keys.Limits(r.base), strings.Split(r.id, ":")[0]) != ""
}

// limitsFellBack notes what Redis knows of limits now.
func (b *book) limitsFellBack() {
	for _, r := range b.limits.rules {
		b.readRule(r)
		r.had, r.order, r.free, r.gone, r.over = r.held, nil, time.Time{}, map[string]time.Time{}, 0
		if r.breaker != nil {
			now, _ := b.readBreaker(r)
			r.breaker.failures, r.breaker.ends, r.breaker.probes, r.breaker.touched = now.failures, now.ends, now.probes, time.Now()
		}
	}
}

// begins notes a run of a job that is under limits, and judges that it has its slots.
func (b *book) begins(p *process, s *state) *ruled {
	if len(b.w.plan.Limits) == 0 {
		return nil
	}
	run := &ruled{p: p, s: s, rules: b.rulesOf(s)}
	b.limits.mu.Lock()
	for other := range b.limits.runs {
		if other.s == s {
			other.twice, run.twice = true, true
		}
	}
	b.limits.runs[run] = true
	b.limits.mu.Unlock()
	b.w.seen["run under limits"]++
	if len(run.rules) > 0 {
		b.hasAsked(p.owner, s)
	}
	for _, r := range run.rules {
		b.readAgain(r)
		b.atOnce(r, run)
		b.inOrder(r, s)
		if r.every > 0 {
			if !r.breaker.again(s.jid()) {
				r.starts++
			}
			if r.starts > r.tokens && b.w.fell.IsZero() {
				b.fails(r, "%d have started with %d tokens", r.starts, r.tokens)
			}
		}
	}
	b.slotsOf(run)
	return run
}

// atOnce judges that no more run than a rule allows. What runs beside them is a handler of a process that was away, which goes
// on though its job is another one's, or one whose slot Redis has forgotten.
func (b *book) atOnce(r *rule, run *ruled) {
	if !r.counts() || !b.w.fell.IsZero() {
		return
	}
	b.limits.mu.Lock()
	defer b.limits.mu.Unlock()
	jobs, away := map[*state]bool{}, false
	for other := range b.limits.runs {
		switch {
		case other.p.dead || !slices.Contains(other.rules, r) || other.s == run.s && other != run:
		case other.twice || len(other.p.fenced) > 0 || time.Since(other.p.faulted) < slotLife+2*limitsBeat && other.p.faulted != other.p.told:
			away = true
		default:
			jobs[other.s] = true
		}
	}
	switch {
	case len(jobs) > r.limit:
		b.fails(r, "%d jobs run at once, which is for %d", len(jobs), r.limit)
	case away && len(jobs) == r.limit:
		b.w.seen["run beside a handler whose process was away"]++
	}
}

// inOrder judges that a job that begins for the first time has passed few of its queue that wait for the same rule.
func (b *book) inOrder(r *rule, s *state) {
	if s.ran > 1 || !b.w.fell.IsZero() || time.Since(later(b.w.refusing, b.w.full)) < time.Minute {
		return
	}
	passed := 0
	for _, o := range b.allJobs() {
		if o.ran == 0 && o.plan.Queue == s.plan.Queue && o.enqueued < s.enqueued && slices.Contains(b.rulesOf(o), r) &&
			slices.ContainsFunc(b.where[o.name], func(place string) bool { return isQueue(place) || place == "held "+keys.Held(r.base, r.id) }) {
			passed++
		}
	}
	if passed > 0 {
		b.w.seen[fmt.Sprintf("job that has passed %d", passed)]++
	}
	if passed > places {
		b.fails(r, "%s begins, and has passed %d that wait", s.name, passed)
	}
}

// readAgain reads the slots of a rule at a time that is no command.
func (b *book) readAgain(r *rule) {
	before, had, order := r.before, r.had, r.order
	b.readRule(r)
	r.before, r.had, r.order = before, had, order
}

// slotsOf judges that a run has its slots. One of a process to which something has happened need not have them.
func (b *book) slotsOf(run *ruled) {
	if run.twice || run.s.copies > 0 || run.p.dead || run.p.stopping || len(run.p.fenced) > 0 || !b.w.fell.IsZero() || time.Since(run.p.faulted) < slotLife+2*limitsBeat {
		return
	}
	for _, r := range run.rules {
		if !r.counts() || b.w.redis.Type(keys.Slots(r.base, r.id)) == "string" {
			continue
		}
		found := false
		for member := range r.slots {
			found = found || member == run.s.jid() || strings.HasPrefix(member, run.s.jid()+"~")
		}
		if !found {
			b.fails(r, "%s runs in %s without a slot", run.s.name, run.p.name)
		}
	}
}

// runsUnderLimits judges all runs.
func (b *book) runsUnderLimits() {
	b.limits.mu.Lock()
	defer b.limits.mu.Unlock()
	for _, name := range b.names { // in an order that replays
		for run := range b.limits.runs {
			if run.s.name == name {
				b.slotsOf(run)
			}
		}
	}
}

// leavesLimits ends a run under limits.
func (b *book) leavesLimits(run *ruled) {
	b.limits.mu.Lock()
	defer b.limits.mu.Unlock()
	delete(b.limits.runs, run)
}

// limitsLeft judges what is there of limits when every job has ended.
func (b *book) limitsLeft() {
	for _, key := range b.w.redis.Keys() {
		if strings.HasSuffix(key, "held") && time.Since(b.w.refusing) < 2*untold {
			continue // a key of a wrong type looks like held jobs, until the leader looks again
		}
		if base, rest, ok := strings.Cut(key, "held"); ok && strings.HasPrefix(base, "troupe:") && b.w.redis.Type(key) == "zset" {
			members, _ := b.w.redis.ZMembers(key)
			b.w.fail("after the end %s%s is there: %v", base, "held"+rest, members)
		}
	}
}
