package supervised

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/supervisor"
)

// Trees are drawn with strategies, sequences of crashes and clocks, and run on
// the real actor system, with the real strategies, in virtual time. After each
// step the whole tree must equal the reference (model_ref_test.go): which actor
// is in which life and state, what each decider was asked with which counts, who
// escalated, and whether the root gave up.
func TestTreeEqualsItsModel(t *testing.T) {
	want := harness.Effort(10_000, 100_000)
	steps := 0
	for steps < want && !t.Failed() {
		rapid.Check(t, func(rt *rapid.T) {
			m := drawModel(rt)
			var err error
			synctest.Test(t, func(t *testing.T) { err = m.run(t) })
			steps += m.done
			if err != nil {
				rt.Fatalf("%v\n%s", err, m)
			}
		})
	}
	t.Logf("%d steps", steps)
	if steps < want {
		t.Errorf("%d steps, want %d", steps, want)
	}
}

// modelled is a case: a tree, and steps on it.
type modelled struct {
	tree    *plannedNode
	nodes   []*plannedNode // parents first
	rootMax int
	steps   []modelStep
	ran     int // steps
	done    int // those of them that did something; after the others time has passed

	mu        sync.Mutex
	starts    map[string]int
	poison    map[string]int
	asked     []string
	escalated map[string]int
	fatal     int
	d         *System
}

// modelStep is one thing that happens, after a pause.
type modelStep struct {
	pause  time.Duration // of whole microseconds
	what   string        // crash, burst, poison, exit
	at     []*plannedNode
	answer answer
	times  int
}

func (s modelStep) String() string {
	var at []string
	for _, n := range s.at {
		at = append(at, n.path)
	}
	return fmt.Sprintf("after %s: %s %s %s %d", s.pause, s.what, strings.Join(at, " "), s.answer, s.times)
}

func (m *modelled) String() string {
	var b strings.Builder
	for _, n := range m.nodes {
		fmt.Fprintf(&b, "%s %s %d in %s, backoff %s to %s, replace %v, given up: %s\n",
			n.path, cmp.Or(n.kind, "leaf"), n.intensity, n.period, n.min, n.max, n.replace, n.onEscalated)
	}
	fmt.Fprintf(&b, "root: %d\n", m.rootMax)
	for i, s := range m.steps[:min(m.ran, len(m.steps))] {
		fmt.Fprintf(&b, "%d. %s\n", i+1, s)
	}
	return b.String()
}

func drawModel(rt *rapid.T) *modelled {
	m := &modelled{starts: map[string]int{}, poison: map[string]int{}, escalated: map[string]int{}}
	m.tree = m.drawNode(rt, launcherName, 0)
	m.rootMax = rapid.IntRange(0, 6).Draw(rt, "root")
	n := rapid.IntRange(50, 500).Draw(rt, "steps")
	for range n {
		m.steps = append(m.steps, m.drawStep(rt))
	}
	return m
}

func (m *modelled) drawNode(rt *rapid.T, path string, depth int) *plannedNode {
	n := &plannedNode{path: path}
	m.nodes = append(m.nodes, n)
	if depth > 0 && (depth == 3 || rapid.IntRange(0, 3).Draw(rt, "leaf") > 0) {
		return n
	}
	n.kind = rapid.SampledFrom([]string{"one_for_one", "all_for_one", "rest_for_one"}).Draw(rt, "kind")
	n.intensity = rapid.IntRange(0, 6).Draw(rt, "intensity")
	n.period = time.Duration(rapid.IntRange(1, 20_000).Draw(rt, "period")) * time.Millisecond
	if rapid.Bool().Draw(rt, "backoff") {
		n.min = time.Duration(rapid.IntRange(1, 3000).Draw(rt, "min")) * time.Millisecond
		n.max = n.min * time.Duration(rapid.IntRange(1, 9).Draw(rt, "max"))
	}
	n.replace = rapid.Bool().Draw(rt, "replace")
	n.onEscalated = rapid.SampledFrom([]supervisor.Directive{
		supervisor.Restart, supervisor.Restart, supervisor.Restart, supervisor.Stop, supervisor.Resume, supervisor.Escalate,
	}).Draw(rt, "given up")
	for i := range rapid.IntRange(1, 4).Draw(rt, "children") {
		n.children = append(n.children, m.drawNode(rt, fmt.Sprintf("%s/%d", path, i), depth+1))
	}
	return n
}

func (m *modelled) drawStep(rt *rapid.T) modelStep {
	s := modelStep{pause: time.Duration(rapid.IntRange(0, 4000).Draw(rt, "pause")) * time.Millisecond}
	s.what = rapid.SampledFrom([]string{"crash", "crash", "crash", "crash", "burst", "poison", "exit"}).Draw(rt, "what")
	s.answer = rapid.SampledFrom([]answer{
		answerRestart, answerRestart, answerRestart, answerRestart, answerJob, answerStop, answerResume, answerEscalate, answerConfuse,
	}).Draw(rt, "answer")
	target := rapid.SampledFrom(m.nodes).Draw(rt, "at")
	if s.what == "burst" {
		s.at = append(s.at, target)
		if len(target.children) > 0 {
			s.at = append(s.at, rapid.Permutation(target.children).Draw(rt, "children")...)
		}
		return s
	}
	s.at = []*plannedNode{target}
	s.times = rapid.IntRange(1, 4).Draw(rt, "times")
	return s
}

// errModel is the reason of a crash; deciders of the model obey it.
type errModel struct{ answer answer }

func (e errModel) Error() string { return string(e.answer) }

func (f answer) reason() error {
	if f == answerJob {
		return &supervisor.JobCrash{Class: "class", Err: errors.New("a bad job")}
	}
	return errModel{f}
}

func (m *modelled) strategy(n *plannedNode) *supervisor.Strategy {
	spec := supervisor.Spec{
		Intensity: cmp.Or(n.intensity, -1), Period: n.period, Replace: n.replace,
		Backoff: supervisor.Backoff{Min: cmp.Or(n.min, -1), Max: n.max},
		Decide: func(f supervisor.Failure) supervisor.Directive {
			line := fmt.Sprintf("%s: %s, restarts %d, crashes %d", n.path, f.Path, f.Restarts, f.ActorCrashes)
			if f.Job != nil {
				line += fmt.Sprintf(", of class %d", f.JobCrashes)
			}
			m.mu.Lock()
			m.asked = append(m.asked, line)
			m.mu.Unlock()
			if _, gaveUp := errors.AsType[*supervisor.Exceeded](f.Reason); gaveUp {
				return n.onEscalated
			}
			reason, _ := errors.AsType[errModel](f.Reason) // none for a job
			if reason.answer == answerConfuse {
				panic("a confused decider")
			}
			return directives[reason.answer]
		},
	}
	return map[string]func(supervisor.Spec) *supervisor.Strategy{
		"one_for_one": supervisor.OneForOne, "all_for_one": supervisor.AllForOne, "rest_for_one": supervisor.RestForOne,
	}[n.kind](spec)
}

// modelActor is a supervisor or a leaf of the real tree.
type modelActor struct {
	m        *modelled
	n        *plannedNode
	next     *Replacements
	stopping bool
}

type (
	occupy struct { // the actor is busy meanwhile
		until chan struct{}
		then  error // and crashes of this
	}
	exit struct{} // a leaf ends by itself
)

func (a *modelActor) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		for _, c := range a.n.children {
			a.child(ctx, c.path[strings.LastIndexByte(c.path, '/')+1:])
		}
		if a.m.started(a.n.path) {
			panic(errModel{answerRestart})
		}
	case *actor.Restarting, *actor.Stopping:
		a.stopping = true
		a.next.Stop()
	case *actor.Terminated:
		if !a.stopping && a.next.Ended(msg.Who.GetId()) {
			a.next.Step(ctx)
		}
	case Due:
		a.next.On(ctx, msg)
	case occupy:
		<-msg.until
		if msg.then != nil {
			panic(msg.then)
		}
	case exit:
		ctx.Stop(ctx.Self())
	}
}

func (a *modelActor) child(ctx actor.Context, name string) {
	i := slices.IndexFunc(a.n.children, func(c *plannedNode) bool { return strings.HasSuffix(c.path, "/"+name) })
	Child(ctx, a.m.props(a.n.children[i]), name)
}

func (m *modelled) props(n *plannedNode, opts ...actor.PropsOption) *actor.Props {
	var strategy *supervisor.Strategy
	if n.kind != "" {
		strategy = m.strategy(n)
	}
	return m.d.SupervisorProps(cmp.Or(n.kind, "leaf"), "", strategy, func(o *Proxy) actor.Actor {
		a := &modelActor{m: m, n: n}
		a.next = NewReplacements(o, a.child)
		return a
	}, opts...)
}

// started counts a start; true says that it must fail.
func (m *modelled) started(path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starts[path]++
	if m.poison[path] == 0 {
		return false
	}
	m.poison[path]--
	return true
}

func (m *modelled) run(t *testing.T) error {
	m.ran, m.done = 0, 0
	m.d = bare(t)
	m.d.publish = func(e event.Event) {
		if e, ok := e.(event.ActorEscalated); ok {
			m.mu.Lock()
			m.escalated[e.Path]++
			m.mu.Unlock()
		}
	}
	began := time.Now()
	var r *ref
	for i, s := range m.steps {
		// All that comes of a step is due at an instant with the step's number of
		// nanoseconds: no two timers of unrelated steps meet.
		then := (time.Since(began) + s.pause).Truncate(time.Microsecond) + time.Duration(i+1)
		if then <= time.Since(began) {
			then += time.Microsecond
		}
		time.Sleep(time.Until(began.Add(then)))
		synctest.Wait()
		if r == nil || r.fatal > 0 {
			if err := m.plant(); err != nil {
				return err
			}
			r = newRef(m.tree, m.rootMax, then)
		}
		r.advance(then)
		if m.step(r, s) {
			m.done++
		}
		synctest.Wait()
		r.settle()
		m.ran++
		if err := m.compare(r); err != nil {
			return fmt.Errorf("step %d (%s): %w", m.ran, s, err)
		}
	}
	m.d.Root().Stop(actor.NewPID(m.d.actors.Load().Address(), launcherName))
	time.Sleep(time.Second) // the library's dead-letter window
	return nil
}

// plant starts the real tree; the one before it has given up.
func (m *modelled) plant() error {
	m.mu.Lock()
	clear(m.starts)
	clear(m.poison)
	clear(m.escalated)
	m.asked, m.fatal = nil, 0
	m.mu.Unlock()
	root := Root(supervisor.Spec{Intensity: cmp.Or(m.rootMax, -1), Period: time.Minute}, func(error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.fatal++
	})
	_, err := m.d.actors.Load().Root.SpawnNamed(m.props(m.tree, actor.WithGuardian(root)), launcherName)
	synctest.Wait()
	return err
}

// step does s on both sides; false if it is not one that has one outcome only.
func (m *modelled) step(r *ref, s modelStep) bool {
	n := r.all[s.at[0].path]
	leaf := n.kind == ""
	switch s.what {
	case "crash":
		if !n.up || !leaf && s.answer == answerJob || !n.takes() && (!leaf || !r.loadable(n) || len(n.late) > 0) {
			return false
		}
		_ = m.d.Crash(n.path, s.answer.reason())
		r.post(n, s.answer)
	case "poison":
		if !leaf || !r.loadable(n) || n.poison > 0 {
			return false
		}
		n.poison = s.times
		m.mu.Lock()
		m.poison[n.path] = s.times
		m.mu.Unlock()
	case "exit":
		if !leaf || !n.takes() {
			return false
		}
		m.d.Root().Send(actor.NewPID(m.d.actors.Load().Address(), n.path), exit{})
		r.end(n)
	case "burst":
		return m.burst(r, n, s)
	}
	return true
}

// burst crashes children of s.at[0] one after the other while it is busy.
func (m *modelled) burst(r *ref, n *refNode, s modelStep) (crashed bool) {
	if !n.takes() || slices.ContainsFunc(n.children, func(c *refNode) bool { return c.kind != "" }) ||
		r.loaded() != nil || n.kind == "one_for_one" && n.min > 0 {
		return false
	}
	until := make(chan struct{})
	m.d.Root().Send(actor.NewPID(m.d.actors.Load().Address(), n.path), occupy{until: until})
	synctest.Wait()
	for _, c := range s.at[1:] {
		if c := r.all[c.path]; c.takes() {
			_ = m.d.Crash(c.path, s.answer.reason())
			synctest.Wait()
			r.crash(c, s.answer)
			crashed = true
		}
	}
	close(until)
	return crashed
}

// loaded is the actor that will crash in the future; there is one at most, so
// that no two crashes come at once in an order that nobody knows.
func (r *ref) loaded() *refNode {
	for _, n := range r.all {
		if n.poison > 0 || len(n.late) > 0 {
			return n
		}
	}
	return nil
}

// loadable tells whether n may be the loaded one: where a group restarts twice
// within an instant, a supervisor in it may take the two for one.
func (r *ref) loadable(n *refNode) bool {
	if l := r.loaded(); l != nil && l != n {
		return false
	}
	for c, s := n, n.parent; s != nil; c, s = s, s.parent {
		if s.kind != "one_for_one" && slices.ContainsFunc(s.children, func(x *refNode) bool { return x != c && x.kind != "" }) {
			return false
		}
	}
	return true
}

func (m *modelled) compare(r *ref) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	differ := func(what string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			errs = append(errs, fmt.Errorf("%s:\n  is     %s\n  should %s", what, g, w))
		}
	}

	for _, p := range m.nodes {
		n := r.all[p.path]
		row := rowOf(m.d, p.path)
		state := string(row.State)
		switch {
		case row.State == tree.StateRestarting && row.Note != "":
			state = "waits"
		case row.State == tree.StateRunning:
			state = "up"
		case row.State == tree.StateStopped:
			state = "ended"
		}
		differ(p.path, fmt.Sprintf("life %d, %s", m.starts[p.path], state), fmt.Sprintf("life %d, %s", n.starts, n.state(r.now)))
	}
	differ("asked", strings.Join(m.asked, "\n"), strings.Join(r.asked, "\n"))
	differ("escalated", m.escalated, r.escalated)
	differ("given up by the root", m.fatal, r.fatal)
	m.asked, r.asked = nil, nil
	return errors.Join(errs...)
}
