package sim

import (
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// book is what became of each job. It looks into Redis after every command that
// may have moved one.
type book struct {
	w       *world
	jobs    map[string]*state
	names   []string            // of the jobs, in order
	owners  map[string]*process // by identity
	pairs   []string            // identity, name
	where   map[string][]string // job -> places, after the last command
	known   map[string]string   // payload -> job
	late    bool                // the connection of the last command was gone already
	refused bool                // Redis has answered the last command with an error

	commands int // so far that may have moved a job
	locks    locks
	limits   limitsBook
	batches  batches
}

// state is one job.
type state struct {
	name     string
	plan     *Job
	pushed   bool // has come into Redis
	ran      int
	failed   int
	done     int
	hits     int             // faults that allow it another run
	copies   int             // how often Redis has fallen back to a time at which it had it
	deaths   int             // recoveries since it was last cleared
	dead     bool            // by the poison rule
	running  map[string]bool // processes in which a run has begun and not ended
	begun    map[string]bool // processes in which a run has begun
	restorer *process        // Redis has forgotten it while this one ran it,
	fences   int             // which had been fenced so often
	hand     string          // the Ruby worker that has popped it
	stray    bool            // on a cluster a late first step has written it when it was done
	gaps     []gap           // of moves that take two steps

	number     int
	parent     *state              // the job that pushes it
	push       *pushing            // and the run; nil: as the next link of a chain
	entered    int                 // how often it was pushed
	at         int                 // the command that has done it
	next       *state              // of its chain
	pushings   []*pushing          // its runs and items
	last       map[string]*pushing // the last run in each process
	items      int                 // runs of items
	ruby       bool                // a Ruby worker has run it
	taken      map[string]int      // process -> the command that has last brought it there
	began      map[string]int      // process -> the command behind which its last run there has begun
	lock       string              // the key of its lock, once it has come into Redis
	seenIn     bool                // and it has been looked at as it did
	enqueued   float64             // into its queue, the last time
	callbackOf *batch              // nil: it is none
	in         job.InBatch         // where it is counted, once it has come into Redis
	joined     bool                // and the batch has it
	kept       string              // what Redis has of its end
	ends       []ended             // that were kept
	revived    bool                // it was retried out of the dead set
	asked      map[string]bool     // process -> it has asked the limits for a run; true: and they may have let it in
}

func (b *book) open(w *world) {
	b.w, b.jobs, b.owners, b.known = w, map[string]*state{}, map[string]*process{}, map[string]string{}
	b.limits = limitsBook{runs: map[*ruled]bool{}}
	b.locks = locks{at: map[string]*lock{}, keys: map[string]string{}, now: map[string]string{}}
	for i := range w.plan.Jobs {
		b.chain(b.add(i+1, &w.plan.Jobs[i]))
	}
	for i := range w.plan.Batches {
		b.addBatch(&w.plan.Batches[i], nil)
	}
}

// know notes whose identity that is. w.mu is held.
func (b *book) know(identity string, p *process) {
	b.owners[identity] = p
	b.pairs = append(b.pairs, identity, p.name)
	b.w.names = strings.NewReplacer(b.pairs...)
}

func (b *book) job(name string) *state { return b.jobs[name] }

// look finds every job in Redis.
func (b *book) look() map[string][]string {
	where := map[string][]string{}
	add := func(payload, place string) {
		name, ok := b.known[payload]
		if !ok {
			name = jobOf(payload)
			b.known[payload] = name
			b.readLock(b.jobs[name], payload)
			b.jobs[name].enqueued = enqueuedAt(payload)
			b.readBatch(b.jobs[name], payload)
		}
		where[name] = append(where[name], place)
	}
	r := b.w.redis
	for _, key := range r.Keys() {
		slot, id, field, claim := listOf(key)
		switch {
		case claim && r.Type(key) == "list": // else it is closed
			list, _ := r.List(key)
			value := r.HGet(slot.Index(id), field)
			if value == "" {
				b.w.fail("no place names %s", key)
			}
			queue, _, _ := strings.Cut(value, " ")
			for _, payload := range list {
				add(payload, "claim "+id+" "+field+" "+queue)
			}
		case isQueue(key):
			list, _ := r.List(key)
			for _, payload := range list {
				add(payload, key)
			}
		case isHeld(key) && r.Type(key) == "zset":
			set, _ := r.ZMembers(key)
			for _, member := range set {
				_, payload, _ := strings.Cut(member, "\n")
				add(payload, "held "+key)
			}
		case key == keys.Retry || key == keys.Schedule || key == keys.Dead || isMoving(key):
			set, _ := r.ZMembers(key)
			for _, payload := range set {
				if isMoving(key) { // a copy that failed again is another one
					add(payload, fmt.Sprintf("%s %08x", key, crc32.ChecksumIEEE([]byte(payload))))
				} else {
					add(payload, key)
				}
			}
		}
	}
	return where
}

// after compares what a command has changed with what it may.
func (b *book) after(o *owner, words []string) {
	if isRead(words) {
		return
	}
	before := b.where
	b.where = b.look()
	script := script(words)
	b.lookAtLocks(script, before)
	b.lookAtLimits(o, words, before)
	b.runsUnderLimits()
	b.effects(o, script, before)
	b.lookAtBatches(o, words, before)
	b.lookAtResults(o, words, before)
	for _, s := range b.allJobs() {
		old, now := before[s.name], b.where[s.name]
		s.pushed = s.pushed || len(now) > 0
		gone, came := minus(old, now), minus(now, old) // there may be a copy elsewhere
		b.takenBy(s, came)
		if b.w.plan.Cluster {
			b.twoSteps(o, words, s, old, gone, came)
			if script == "reroute" && len(came) == 0 && slices.Contains(now, keys.Dead) {
				came = []string{keys.Dead} // it was written before
			}
		}
		if len(gone) == len(came) && !slices.ContainsFunc(gone, isNoClaim) && !slices.ContainsFunc(came, isNoQueue) {
			for _, claim := range gone { // more than one: of a job that Redis had twice
				b.returned(o, script, s, claim)
			}
		}
		if script == "inspect.enqueue" && slices.Contains(gone, keys.Dead) {
			s.revived, s.dead = true, false
			s.hits++
			b.w.seen["dead job retried"]++
		}
		if script == "reroute" && len(gone) == 1 && (len(came) != 1 || came[0] != gone[0]) {
			b.decided(s, gone[0], came)
		}
		b.check(s, now)
	}
	if script == "forget" {
		b.cleared()
	}
}

// takenBy notes which processes have a job in progress now.
func (b *book) takenBy(s *state, came []string) {
	for _, place := range came {
		if id, ok := strings.CutPrefix(place, "claim "); ok {
			identity, _, _ := strings.Cut(id, "#")
			s.taken[b.owners[identity].name] = b.commands
		}
	}
}

// enqueuedAt is when a job came into its queue; 0 before that.
func enqueuedAt(payload string) float64 {
	p, err := troupe.ParsePayload([]byte(payload))
	if err != nil {
		return 0
	}
	at, _ := p.Time("enqueued_at")
	return max(0, seconds(at))
}

func isNoClaim(place string) bool { return !strings.HasPrefix(place, "claim ") }
func isNoQueue(place string) bool { return !isQueue(place) }

// listOf takes the key of a list of jobs in progress apart.
func listOf(key string) (slot keys.Slot, id, field string, ok bool) {
	rest, ok := strings.CutPrefix(key, "troupe:claim:")
	slot, rest = cutTag(rest)
	process, rest, found := strings.Cut(rest, "#")
	capsule, field, named := strings.Cut(rest, ":")
	return slot, process + "#" + capsule, field, ok && found && named
}

// fellBack notes what Redis has forgotten, and what it has again.
func (b *book) fellBack() {
	before := b.where
	b.where = b.look()
	b.locksFellBack()
	b.limitsFellBack()
	b.batchesFellBack()
	b.resultsFellBack()
	for _, s := range b.allJobs() {
		switch now := b.where[s.name]; {
		case len(now) > 0: // who has it in hand may run it, too
			s.pushed, s.gaps = true, nil
			s.hits++
			s.copies++
			if b.w.plan.Cluster { // it may be there twice
				s.hits, s.copies = s.hits+len(now)-1, s.copies+len(now)-1
			}
			b.w.seen["job that Redis had again"]++
		case s.pushed && s.hand == "" && s.done == 0:
			s.pushed, s.gaps, s.restorer = false, nil, nil // who was to restore it the last time has done so
			b.w.seen["job that Redis forgot"]++
			more := b.holders(s, before[s.name]) - 1 // each may write it back: the fence is forgotten as well
			s.hits, s.copies = s.hits+max(0, more), s.copies+max(0, more)
			for _, place := range before[s.name] {
				if id, ok := strings.CutPrefix(place, "claim "); ok {
					identity, _, _ := strings.Cut(id, "#")
					if p := b.owners[identity]; !p.dead && s.running[p.name] {
						s.restorer, s.fences = p, p.fences
						b.w.seen["job that only its process had in hand"]++
					}
				}
			}
		}
	}
}

// holders counts the processes that may have a job in hand, one that was fenced included.
func (b *book) holders(s *state, places []string) int {
	names := map[string]bool{}
	for name := range s.begun {
		names[name] = true
	}
	for _, place := range places {
		if id, ok := strings.CutPrefix(place, "claim "); ok {
			identity, _, _ := strings.Cut(id, "#")
			names[b.owners[identity].name] = true
		}
	}
	for _, p := range b.owners {
		if p.dead {
			delete(names, p.name)
		}
	}
	return len(names)
}

func (b *book) allJobs() []*state {
	list := make([]*state, len(b.names))
	for i, name := range b.names {
		list[i] = b.jobs[name]
	}
	return list
}

// returned judges the return of a job from what is in progress to its queue.
func (b *book) returned(o *owner, script string, s *state, claim string) {
	id := strings.Fields(claim)[1]
	identity, _, _ := strings.Cut(id, "#")
	of := b.owners[identity]
	switch {
	case script == "putback" || script == "reroute":
		s.hits++
		if of.dead {
			b.w.seen["job rescued from a dead process"]++
		} else {
			b.w.seen["job rescued from a process that was paused or cut off"]++
		}
		if of.healthy() && !of.fenced[id] {
			b.w.fail("%s was rescued from %s, to which nothing has happened", s.name, of.name)
		}
	case s.running[of.name] && !of.stopping && s.copies == 0:
		b.w.fail("%s went back to its queue while %s ran it", s.name, of.name)
	case s.begun[of.name] && of.stopping: // decided at the deadline, also if the run has ended since
		s.hits++
		b.w.seen["job requeued by a stop"]++
	}
}

// fenced judges a fence: who gives signs of life lives.
func (b *book) fenced(words []string, reply string) {
	_, id := cutTag(strings.TrimPrefix(words[3], keys.Slot{}.Index("")+":"))
	identity, _, _ := strings.Cut(id, "#")
	of := b.owners[identity]
	if reply[0] != '*' || reply == "*0\r\n" {
		return
	}
	of.fences++
	if of.healthy() && !of.fenced[id] { // else a rescuer goes on where another one has died
		b.w.fail("%s was fenced, to which nothing has happened", of.name)
	}
	if of.fenced == nil {
		of.fenced = map[string]bool{}
	}
	of.fenced[id] = true
}

// healthy reports whether nothing has happened to a process for a while.
func (p *process) healthy() bool { return !p.dead && time.Since(p.faulted) > 3*lease }

// check holds what must be true of a job at any time.
func (b *book) check(s *state, places []string) {
	n := len(places)
	if s.hand != "" {
		n++
	}
	switch {
	case n > 1+s.copies+len(s.gaps):
		b.w.fail("%s stands in %s", s.name, strings.Join(append(slices.Clone(places), s.hand), " and "))
	case n == 0 && s.pushed && s.done == 0:
		b.w.fail("%s is lost: neither in Redis nor done", s.name)
	case n == 1 && s.done > 0 && s.hits == 0 && s.hand == "" && len(s.gaps) == 0 && !strings.HasPrefix(places[0], "claim "):
		b.w.fail("%s is done, and stands in %s, though nothing has happened to it", s.name, places[0])
	}
}

// runs notes that a process has begun to run a job.
func (b *book) runs(o *owner, s *state) {
	s.ran++
	s.running[o.name], s.begun[o.name], s.began[o.name] = true, true, b.commands
	if o.place != nil {
		b.startedWith(s)
		b.calledOffLate(o, s)
	}
	b.w.seen["run"]++
	if s.done > 0 {
		b.w.seen["run of a job that was done"]++
	}
	if s.ran > 1+s.hits {
		b.w.fail("%s runs for the %d. time, and only %d faults have hit it", s.name, s.ran, s.hits)
	}
}

// ends notes that a run is over, and returns what it is to say.
func (b *book) ends(o *owner, s *state) error {
	if s.plan.Items == 0 && b.failed(o, s) {
		return errFails
	}
	delete(s.running, o.name)
	how, err := "done", error(nil)
	switch {
	case o.place == nil: // Ruby knows no such ends
	case s.plan.Dies && !s.revived:
		return troupe.Kill(errFails)
	case s.plan.Drops:
		how, err = "dropped", troupe.Discard(errFails)
	}
	s.done++
	if p := s.last[o.name]; p != nil {
		p.how = how
	}
	return err
}

// failed notes that a run fails, if it is to.
func (b *book) failed(o *owner, s *state) bool {
	if s.failed >= s.plan.Fails {
		return false
	}
	delete(s.running, o.name)
	s.failed++
	s.hits++
	return true
}

// left judges what a process has left behind that was stopped in good order.
func (b *book) left(p *process) {
	if !p.asked || time.Since(p.faulted) <= 3*lease {
		return
	}
	if n := len(p.report.Left) + len(p.report.Lost); n > 0 {
		b.w.fail("%s has stopped in good order and left %d jobs", p.name, n)
	}
	for name, places := range b.where {
		for _, place := range places {
			if strings.HasPrefix(place, "claim "+p.daemon.Identity()+"#") {
				b.w.fail("%s has stopped in good order and left %s in progress", p.name, name)
			}
		}
	}
}

// finished reports whether every job that was pushed is done and gone.
func (b *book) finished() bool { return b.unfinished() == "" }

func (b *book) unfinished() string {
	var names []string
	for _, s := range b.allJobs() {
		if s.pushed && !s.rests(b.where[s.name]) && (s.done == 0 || len(b.where[s.name]) > 0 || s.hand != "") {
			names = append(names, s.name+" ("+strings.Join(b.where[s.name], " ")+")")
		}
	}
	return b.w.names.Replace(strings.Join(names, ", "))
}

// kept judges who had a job in hand that Redis has forgotten: it is to write it back. One
// that is fenced or ends before that cannot.
func (b *book) kept() {
	for _, s := range b.allJobs() {
		if p := s.restorer; p != nil && !s.pushed && s.done == 0 && !p.dead && p.fences == s.fences && time.Since(p.faulted) >= noticed {
			b.w.fail("%s is lost: %s ran it when Redis forgot it, and has not written it back", s.name, p.name)
		}
	}
}

// close is the last look.
func (b *book) close() {
	b.where = b.look()
	for _, name := range slices.Sorted(maps.Keys(b.where)) {
		if s := b.jobs[name]; !s.rests(b.where[name]) && !s.stray {
			b.w.fail("after the end %s stands in %s", name, strings.Join(b.where[name], " "))
		}
	}
	for _, s := range b.allJobs() {
		if s.pushed && s.done == 0 && !s.dead && !s.rests(b.where[s.name]) {
			b.w.fail("after the end %s is not done", s.name)
		}
	}
	b.lookAtLocks("nothing", b.where)
	b.locksLeft()
	b.limitsLeft()
	b.batchesLeft()
}
