package claimmodel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// World is Redis, all processes, and what is on the wire between them.
type World struct {
	pick      func(n int) int // draws 0 to n-1
	rules     *Without
	faults    faults
	now       int
	cluster   bool
	masters   []*Master
	queues    []string
	wire      []*msg
	owners    []*owner
	rescue    []*rescuer
	acc       account
	big       string // a job that a thin link does not carry
	jobs      int
	born      int
	faultless bool // no faults any more
	mix       uint32
	rounds    int // since the faults have stopped

	works    map[string]work // what jobs do to others
	handlers []*handler      // that go on beside their jobs
	runs     int             // that have pushed

	batch  []string // jobs that have entered it
	closed bool     // it was closed

	callbacks int // that have entered

	givenBack *waiter // whose owner gives back right now
	wrong     string
	trace     *strings.Builder
	seen      map[string]int // how often something happened
}

// faults says which faults a history has.
type faults struct {
	cuts, late, duplicates, breakOff, crash, machine, pause, suspend bool
	fallBack, spoil, full, outcomes, leave, thin, clone, ruby        bool
	twice                                                            bool // the same bytes are pushed twice
	effects                                                          bool // jobs push others, and are unique
	limits                                                           bool // jobs are under limits
	batches                                                          bool // jobs are in a batch, and their ends are kept
}

func newWorld(pick func(int) int, rules *Without, trace *strings.Builder) *World {
	w := &World{pick: pick, rules: rules, trace: trace, acc: newAccount(), seen: map[string]int{}, works: map[string]work{}}
	w.cluster = pick(3) == 1
	w.queues = []string{"a", "b"}[:1+pick(2)]
	w.masters = []*Master{w.newMaster("redis")}
	if w.cluster {
		w.masters[0].name = "master"
		for _, q := range w.queues {
			w.masters = append(w.masters, w.newMaster("master of "+q))
		}
	}
	some := func() bool { return pick(3) == 1 }
	f := &w.faults
	f.cuts, f.late, f.duplicates, f.breakOff = pick(2) == 1, some(), some(), some()
	f.crash, f.machine, f.pause, f.suspend = pick(2) == 1, some(), pick(2) == 1, some()
	f.fallBack, f.spoil, f.full, f.outcomes = pick(2) == 1, some(), some(), pick(2) == 1
	f.leave, f.thin, f.clone, f.ruby = some(), pick(6) == 1, pick(8) == 1, some()
	if pick(5) == 1 && !f.fallBack && !f.outcomes && !f.breakOff && !f.clone {
		f.twice = true
	}
	switch pick(8) { // some need few faults, and much of them
	case 1, 3:
		*f = faults{cuts: true, late: true, leave: true}
	case 4:
		*f = faults{cuts: true, fallBack: true, spoil: true, outcomes: true}
	case 2:
		*f = faults{cuts: true, pause: true}
		f.suspend = some()
	}
	if pick(2) == 1 && !f.twice && !f.clone {
		f.effects = true
	}
	if f.thin {
		w.big = "j2"
	}
	for range 1 + pick(3) {
		w.newOwner()
	}
	for i := range 1 + pick(2) {
		w.rescue = append(w.rescue, &rescuer{w: w, n: i + 1})
	}
	w.tracef("cluster %t, queues %v, %d processes, %d rescuers", w.cluster, w.queues, len(w.owners), len(w.rescue))
	return w
}

func (w *World) newMaster(name string) *Master {
	m := &Master{name: name, now: &w.now, keys: map[string]*value{}, bad: map[string]bool{}}
	m.save()
	return m
}

// unreadable ends the name of a sorted set beside a queue, on Cluster.
const unreadable = ".unreadable"

func queueKey(name string) string { return "queue:" + name }

// slots returns the queues of each slot: one server has one.
func (w *World) slots() [][]string {
	if !w.cluster {
		return [][]string{w.queues}
	}
	var out [][]string
	for _, q := range w.queues {
		out = append(out, []string{q})
	}
	return out
}

// masterOf is the master of a queue.
func (w *World) masterOf(queue string) *Master {
	if !w.cluster {
		return w.masters[0]
	}
	return w.masters[1+slices.Index(w.queues, queue)]
}

// masterOfKey is the master of a key.
func (w *World) masterOfKey(key string) *Master {
	if name, ok := strings.CutPrefix(key, "queue:"); ok {
		return w.masterOf(strings.TrimSuffix(name, unreadable))
	}
	if _, rest, ok := strings.Cut(key, "{"); ok {
		name, _, _ := strings.Cut(rest, "}")
		return w.masterOf(name)
	}
	return w.masters[0]
}

// address is where an owner keeps what it has of a slot.
func (w *World) address(id string, queues []string) Address {
	registry := "troupe:places"
	if w.rules.RegistryNewName {
		registry = "troupe:procs"
	}
	if !w.cluster {
		return Address{ID: id, Place: "troupe:inprogress:" + id, Lists: "troupe:claim:" + id + ":", Registry: registry, Lease: "troupe:lease:" + id}
	}
	tag := "{" + queues[0] + "}:"
	return Address{ID: id, Place: "troupe:inprogress:" + tag + id, Lists: "troupe:claim:" + tag + id + ":", Registry: registry + ":{" + queues[0] + "}"}
}

// registered writes or removes what the registry of all slots says of a place: a
// mutant only, in which it lies in a slot of its own.
func (w *World) registered(at Address, there bool) {
	if !w.cluster || !w.rules.RegistryInSlot {
		return
	}
	w.run(w.masters[0], -1, func(c *call) Reply {
		if c.wrote = true; there {
			c.hset("troupe:places", at.Place, "2") //nolint:errcheck // a mutant
		} else {
			c.hdel("troupe:places", at.Place)
		}
		return Reply{}
	})
}

// destination is where a job goes that has not ended well.
func (w *World) destination(u *unit) Destination {
	switch u.outcome {
	case well:
		return Destination{None: true}
	case retried:
		return Destination{Key: "retry", Set: true}
	case died:
		return Destination{Key: "dead", Set: true}
	case rerouted:
		for _, q := range w.queues {
			if q != u.queue {
				return Destination{Key: queueKey(q)}
			}
		}
	case open, requeued:
	}
	return Destination{Key: queueKey(u.queue), Front: true}
}

// put writes the first of two steps.
func (w *World) put(c *call, u *unit, to Destination) Reply {
	r := Put(c, u.job, to)
	if len(r.Refused) == 0 {
		w.acc.allow(u.job, 1, 1)
	}
	return r
}

func (w *World) tracef(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%4d  %s\n", w.now, fmt.Sprintf(format, args...))
	}
}

func (w *World) note(what string) { w.seen[what]++ }

// fail notes the first thing that is wrong.
func (w *World) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
		w.tracef("WRONG: %s", w.wrong)
	}
}

// dump tells what a master holds.
func (w *World) dump(m *Master) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m.keys)) {
		if v := m.find(key); v != nil {
			fmt.Fprintf(&b, "%s=%s ", key, v)
		}
	}
	return b.String()
}

func (v *value) String() string {
	var b strings.Builder
	switch v.kind {
	case aList, aString:
		fmt.Fprint(&b, v.list)
	case aSet:
		fmt.Fprint(&b, slices.Sorted(maps.Keys(v.hash)))
	case aHash:
		for i, f := range slices.Sorted(maps.Keys(v.hash)) {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s: %s", f, v.hash[f])
		}
	}
	if v.until != 0 {
		fmt.Fprintf(&b, " until %d", v.until)
	}
	return "(" + b.String() + ")"
}

// describe tells a reply in words.
func describe(r Reply) string {
	var b strings.Builder
	b.WriteString(string(r.Verdict))
	for _, c := range r.Claims {
		fmt.Fprintf(&b, ", claim %s of %s %v", c.Name, c.Queue, c.Jobs)
	}
	if r.Lists != nil {
		fmt.Fprintf(&b, ", was %v", r.Mark)
		for _, name := range slices.Sorted(maps.Keys(r.Lists)) {
			fmt.Fprintf(&b, ", %s has %d", name, r.Lists[name].Len)
		}
	}
	if len(r.Jobs) > 0 {
		fmt.Fprintf(&b, " %v", r.Jobs)
	}
	if len(r.Refused) > 0 {
		fmt.Fprintf(&b, ", refused %v", r.Refused)
	}
	if r.Last {
		b.WriteString(", nothing left")
	}
	return b.String()
}
