package supervised

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupehq/troupe/supervisor"
)

// The reference: what a supervision tree does, in a few rules on plain values
// and a clock that is a number. Nothing here knows an actor, a goroutine, a
// mailbox or package supervisor's code.

// plannedNode is a node of a drawn tree; a leaf has no kind.
type plannedNode struct {
	path, kind  string
	intensity   int
	period      time.Duration
	min, max    time.Duration // backoff
	replace     bool
	onEscalated supervisor.Directive // for children that gave up
	children    []*plannedNode
}

// answer is how an actor is made to crash.
type answer string

const (
	answerRestart  answer = "restart"
	answerStop     answer = "stop"
	answerResume   answer = "resume"
	answerEscalate answer = "escalate"
	answerJob      answer = "job"   // a user's job panicked
	answerConfuse  answer = "panic" // the decider panics
)

var directives = map[answer]supervisor.Directive{
	answerRestart: supervisor.Restart, answerStop: supervisor.Stop, answerResume: supervisor.Resume,
	answerEscalate: supervisor.Escalate, answerJob: supervisor.Restart, answerConfuse: supervisor.Restart,
}

// refNode is an actor. It is up, or it has ended; one that is up may have crashed.
type refNode struct {
	*plannedNode
	parent   *refNode
	children []*refNode

	up, crashed bool
	starts      int
	plan        *refPlan // it waits for this
	late        []answer // crashes that wait in its mailbox
	poison      int      // so many starts more will crash

	// of a supervisor
	gaveUp  bool
	spent   []time.Duration            // when its budget was
	crashes map[string][]time.Duration // when, by actor and by class
	rows    map[string]refRow          // restarts in a row, by actor or, as "", of the group
}

// refRow is how many restarts there were in a row, and since when the last is over.
type refRow struct {
	restarts int
	up       time.Duration
}

// refPlan is a restart or a replacement of some children.
type refPlan struct {
	of      *refNode
	due     time.Duration
	members []*refNode
}

type ref struct {
	now       time.Duration
	all       map[string]*refNode
	root      *refNode
	plans     []*refPlan
	todo      []func() // messages on their way to supervisors
	rootMax   int
	rootSpent []time.Duration
	fatal     int
	asked     []string // of deciders
	escalated map[string]int
}

func newRef(tree *plannedNode, rootMax int, now time.Duration) *ref {
	r := &ref{now: now, all: map[string]*refNode{}, escalated: map[string]int{}, rootMax: rootMax}
	r.root = r.add(tree, nil)
	r.start(r.root)
	return r
}

func (r *ref) add(p *plannedNode, parent *refNode) *refNode {
	n := &refNode{plannedNode: p, parent: parent}
	r.all[p.path] = n
	for _, c := range p.children {
		n.children = append(n.children, r.add(c, n))
	}
	return n
}

// takes tells whether the actor takes messages.
func (n *refNode) takes() bool { return n.up && !n.crashed && n.plan == nil }

// state is what the tree is to show.
func (n *refNode) state(now time.Duration) string {
	switch {
	case n.plan != nil && n.plan.due > now:
		return "waits"
	case !n.up:
		return "ended"
	case n.crashed:
		return "crashed"
	}
	return "up"
}

func (r *ref) start(n *refNode) {
	n.up, n.crashed, n.plan, n.gaveUp = true, false, nil, false
	n.starts++
	n.spent, n.crashes, n.rows = nil, map[string][]time.Duration{}, map[string]refRow{}
	for _, c := range n.children {
		r.start(c)
	}
	if n.poison > 0 {
		n.poison--
		r.crash(n, answerRestart)
		return
	}
	r.takeLate(n)
}

func (r *ref) takeLate(n *refNode) {
	if len(n.late) > 0 {
		f := n.late[0]
		n.late = n.late[1:]
		r.crash(n, f)
	}
}

func (r *ref) end(n *refNode) {
	n.up, n.crashed, n.plan, n.late = false, false, nil, nil
	r.endChildren(n)
}

func (r *ref) endChildren(n *refNode) {
	r.plans = slices.DeleteFunc(r.plans, func(p *refPlan) bool { return p.of == n })
	for _, c := range n.children {
		r.end(c)
	}
}

// restart is one in place: the mailbox stays.
func (r *ref) restart(n *refNode) {
	if n.up {
		r.endChildren(n)
		r.start(n)
	}
}

// post makes n crash, now or when it takes messages again.
func (r *ref) post(n *refNode, f answer) {
	if n.takes() {
		r.crash(n, f)
	} else if n.up {
		n.late = append(n.late, f)
	}
}

func (r *ref) crash(n *refNode, f answer) {
	n.crashed = true
	life := n.starts
	r.todo = append(r.todo, func() { r.failed(n, f, life) })
}

// settle delivers what is on its way, in order.
func (r *ref) settle() {
	for len(r.todo) > 0 {
		next := r.todo[0]
		r.todo = r.todo[1:]
		next()
	}
}

// failed is what n's supervisor does about a failure in n's life number life.
// An empty answer is that of a supervisor that gave up.
func (r *ref) failed(n *refNode, f answer, life int) {
	s := n.parent
	switch {
	case n.plan != nil || !n.up || n.starts != life:
		return // what was decided before covers it
	case s == nil:
		r.rootFailed(f == "")
		return
	case s.gaveUp:
		return
	}
	s.spent = recent(s.spent, r.now, s.period)
	asked := fmt.Sprintf("%s: %s, restarts %d, crashes %d", s.path, n.path, len(s.spent), s.count(n.path, r.now))
	if f == answerJob {
		asked += fmt.Sprintf(", of class %d", s.count("class", r.now))
	}
	r.asked = append(r.asked, asked)
	d := directives[f]
	if f == "" {
		if d = s.onEscalated; d == supervisor.Resume {
			d = supervisor.Restart
		}
	}
	switch {
	case d == supervisor.Resume:
		n.crashed = false
		r.takeLate(n)
	case d == supervisor.Stop:
		r.end(n)
	case d == supervisor.Escalate:
		r.escalate(s)
	case f == answerJob:
		r.carryOut(s, []*refNode{n}, 0)
	case len(s.spent) >= s.intensity:
		r.escalate(s)
	default:
		s.spent = append(s.spent, r.now)
		r.carryOut(s, s.group(n), s.inARow(n, r.now))
	}
}

// count notes a crash; it returns how many there were before.
func (n *refNode) count(key string, now time.Duration) int {
	before := recent(n.crashes[key], now, n.period)
	n.crashes[key] = append(before, now)
	return len(before)
}

func (r *ref) escalate(s *refNode) {
	r.escalated[s.path]++
	s.gaveUp = true
	r.crash(s, "")
}

// rootFailed is about the root's own crash, within a budget, or about one that
// gave up, which is told of already and ends the tree.
func (r *ref) rootFailed(gaveUp bool) {
	r.rootSpent = recent(r.rootSpent, r.now, time.Minute)
	if spent := len(r.rootSpent) >= r.rootMax; spent || gaveUp {
		if !gaveUp {
			r.escalated[r.root.path]++
		}
		r.fatal++
		r.end(r.root)
		return
	}
	r.rootSpent = append(r.rootSpent, r.now)
	r.restart(r.root)
}

// group is who goes down with n, in order.
func (n *refNode) group(child *refNode) (g []*refNode) {
	reached := n.kind == "all_for_one"
	for _, c := range n.children {
		reached = reached || n.kind == "rest_for_one" && c == child
		if c == child || reached && (c.up || c.plan != nil) {
			g = append(g, c)
		}
	}
	return g
}

// inARow counts a restart of child, and returns the wait before it. Who was up
// for a period, and twice as long as it waited, begins anew.
func (n *refNode) inARow(child *refNode, now time.Duration) time.Duration {
	key := ""
	if n.kind == "one_for_one" {
		key = child.path
	}
	row := n.rows[key]
	if row.restarts > 0 && now-row.up > max(n.period, 2*n.wait(row.restarts)) {
		row.restarts = 0
	}
	row.restarts++
	wait := n.wait(row.restarts)
	row.up = now + wait
	n.rows[key] = row
	return wait
}

// wait is the backoff before restart number n in a row.
func (n *refNode) wait(number int) time.Duration {
	if number == 1 {
		return 0
	}
	d := n.min
	for range number - 2 {
		d *= 2
	}
	return min(d, n.max)
}

func (r *ref) carryOut(s *refNode, group []*refNode, wait time.Duration) {
	p := &refPlan{of: s, due: r.now + wait, members: group}
	for _, n := range group {
		if s.replace {
			r.end(n)
		}
		n.plan = p
	}
	switch r.plans = append(r.plans, p); {
	case s.replace:
		r.todo = append(r.todo, func() { r.step(s) }) // when it hears that they have ended
	case wait == 0:
		r.carriedOut(p)
	}
}

// step starts the Replacements whose time has come.
func (r *ref) step(s *refNode) {
	for _, p := range slices.Clone(r.plans) {
		if p.of == s && p.due <= r.now && !s.gaveUp {
			r.carriedOut(p)
		}
	}
}

func (r *ref) carriedOut(p *refPlan) {
	r.plans = slices.DeleteFunc(r.plans, func(q *refPlan) bool { return q == p })
	for _, n := range p.members {
		switch {
		case n.plan != p: // it went over to a later plan
		case p.of.replace:
			r.start(n)
		default:
			r.restart(n)
		}
	}
}

// advance runs the clock to then.
func (r *ref) advance(then time.Duration) {
	for {
		var next *refPlan
		for _, p := range r.plans {
			overdue := p.of.replace && p.due <= r.now // its supervisor took no messages at the time
			if p.due <= then && !overdue && (next == nil || p.due < next.due) {
				next = p
			}
		}
		if next == nil {
			r.now = then
			return
		}
		r.now = next.due
		switch {
		case !next.of.replace:
			r.carriedOut(next)
		case next.of.takes():
			r.step(next.of)
		}
		r.settle()
	}
}

func recent(times []time.Duration, now, period time.Duration) []time.Duration {
	return slices.DeleteFunc(times, func(t time.Duration) bool { return now-t > period })
}
