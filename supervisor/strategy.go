package supervisor

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe"
)

// Spec describes a strategy.
type Spec struct {
	// Intensity restarts within Period are allowed for all children together;
	// one more and the supervisor escalates. 0 and 0 mean 10 in 10 s; Intensity
	// −1 allows none.
	Intensity int
	Period    time.Duration
	Backoff   Backoff // waits between restarts
	Decide    Decider // nil means DefaultDecider; one that panics or takes over 1 s is overruled by it
}

// deciderTime is how long a user's decider may take.
const deciderTime = time.Second

// Default is the strategy of every supervisor that is given none: one for one,
// 20 restarts a minute, backoff 100 ms to 5 s. The cap is below a third of the
// default lease: a heartbeat that crashes for ever must not cost the process
// its lease while it waits.
func Default() *Strategy {
	return OneForOne(Spec{
		Intensity: 20, Period: time.Minute,
		Backoff: Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.2},
	})
}

// OneForOne restarts the child that failed.
func OneForOne(s Spec) *Strategy { return newStrategy(one, s) }

// AllForOne restarts every child when one fails: for children that must not go
// on without each other.
func AllForOne(s Spec) *Strategy { return newStrategy(all, s) }

// RestForOne restarts the child that failed and those started after it.
func RestForOne(s Spec) *Strategy { return newStrategy(rest, s) }

type kind string

const (
	one  kind = "one_for_one"
	all  kind = "all_for_one"
	rest kind = "rest_for_one"
)

// Strategy is a protoactor SupervisorStrategy made from a Spec. It is safe for
// concurrent use; it belongs to one supervisor.
type Strategy struct {
	kind kind
	spec Spec

	mu     sync.Mutex
	budget budget
}

var _ actor.SupervisorStrategy = (*Strategy)(nil)

func newStrategy(k kind, s Spec) *Strategy {
	switch {
	case s.Intensity == 0 && s.Period == 0:
		s.Intensity = 10
	case s.Intensity < 0:
		s.Intensity = 0
	}
	if s.Period <= 0 {
		s.Period = 10 * time.Second
	}
	return &Strategy{kind: k, spec: s, budget: budget{intensity: s.Intensity, period: s.Period}}
}

// String tells kind and budget, like "one_for_one, 20 restarts in 1m0s".
func (s *Strategy) String() string { return fmt.Sprintf("%s, %s", s.kind, &s.budget) }

// Reset forgets past restarts. A supervisor calls it when it starts, so that a
// restarted one has a fresh budget, as in OTP.
func (s *Strategy) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget.reset()
}

// HandleFailure implements actor.SupervisorStrategy.
func (s *Strategy) HandleFailure(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, message any) {
	f := s.failure(child.GetId(), reason)
	d := s.decide(f)
	switch d {
	case Resume:
		publish(sys, child, f, actor.ResumeDirective)
		sup.ResumeChildren(child)
	case Stop:
		publish(sys, child, f, actor.StopDirective)
		sup.StopChildren(child)
	case Escalate:
		escalate(sys, sup, child, &Exceeded{Path: f.Path, Restarts: f.Restarts, Cause: f.Reason}, message)
	default:
		s.restart(sys, sup, child, f, message)
	}
}

func (s *Strategy) restart(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, f Failure, message any) {
	var wait time.Duration
	if f.Job == nil {
		s.mu.Lock()
		n, exceeded := s.budget.spend(time.Now())
		s.mu.Unlock()
		if exceeded {
			escalate(sys, sup, child, &Exceeded{Path: f.Path, Restarts: n - 1, Spec: s.budget.String(), Cause: f.Reason}, message)
			return
		}
		wait = s.spec.Backoff.Wait(n)
	}
	publish(sys, child, f, actor.RestartDirective)
	group := []*actor.PID{child}
	if f.Job == nil { // a bad job concerns nobody but its processor
		group = s.group(sup, child)
	}
	if wait <= 0 {
		sup.RestartChildren(group...)
		return
	}
	// The child stays suspended meanwhile. When the timer fires the name may
	// belong to another actor: compare the process, not the name.
	procs := make([]actor.Process, len(group))
	for i, pid := range group {
		procs[i], _ = sys.ProcessRegistry.Get(pid)
	}
	time.AfterFunc(wait, func() {
		for i, pid := range group {
			if cur, ok := sys.ProcessRegistry.Get(pid); ok && cur == procs[i] {
				sup.RestartChildren(pid)
			}
		}
	})
}

// group is what restarts together with child.
func (s *Strategy) group(sup actor.Supervisor, child *actor.PID) []*actor.PID {
	if s.kind == one {
		return []*actor.PID{child}
	}
	children := slices.Clone(sup.Children())
	if s.kind == all {
		return children
	}
	i := slices.IndexFunc(children, func(p *actor.PID) bool { return p.GetId() == child.GetId() })
	if i < 0 {
		return []*actor.PID{child}
	}
	return children[i:]
}

func (s *Strategy) failure(path string, reason any) Failure {
	c := NewCrash(reason, nil)
	f := Failure{Path: path, Reason: c.Reason, Stack: c.Stack}
	f.Role, f.Capsule = split(path)
	f.Job = c.Job()
	s.mu.Lock()
	f.Restarts = s.budget.count(time.Now())
	s.mu.Unlock()
	return f
}

// decide asks the user's decider, in a goroutine of its own: it is user code,
// and the supervisor must stay answerable.
func (s *Strategy) decide(f Failure) Directive {
	if s.spec.Decide == nil {
		return DefaultDecider(f)
	}
	answer := make(chan Directive, 1)
	go func() {
		d := DefaultDecider(f)
		defer func() {
			if v := recover(); v != nil {
				d = DefaultDecider(f)
			}
			answer <- d
		}()
		d = s.spec.Decide(f)
	}()
	t := time.NewTimer(deciderTime)
	defer t.Stop()
	select {
	case d := <-answer:
		if d >= Restart && d <= Escalate {
			return d
		}
	case <-t.C:
	}
	return DefaultDecider(f)
}

func escalate(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, e *Exceeded, message any) {
	publish(sys, child, Failure{Reason: e}, actor.EscalateDirective)
	sup.EscalateFailure(e, message)
}

func publish(sys *actor.ActorSystem, child *actor.PID, f Failure, d actor.Directive) {
	sys.EventStream.Publish(&actor.SupervisorEvent{Child: child, Reason: &Crash{Reason: f.Reason, Stack: f.Stack}, Directive: d})
}

// Root returns the strategy of the tree's root: what is above the launcher. A
// root has nobody to escalate to, so a launcher that fails more often than spec
// allows is stopped and fatal is told, once per failure past the budget.
func Root(spec Spec, fatal func(error)) actor.SupervisorStrategy {
	return &root{Strategy: OneForOne(spec), fatal: fatal}
}

type root struct {
	*Strategy
	fatal func(error)
}

// HandleFailure never lets a panic out: at the root it would end the process.
func (r *root) HandleFailure(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, rs *actor.RestartStatistics, reason, message any) {
	defer func() {
		if v := recover(); v != nil {
			r.fatal(&troupe.PanicError{Value: v, Stack: debug.Stack()})
			sup.StopChildren(child)
		}
	}()
	r.Strategy.HandleFailure(sys, rootSupervisor{sup, child, r.fatal}, child, rs, reason, message)
}

type rootSupervisor struct {
	actor.Supervisor
	child *actor.PID
	fatal func(error)
}

func (s rootSupervisor) EscalateFailure(reason, _ any) {
	s.fatal(NewCrash(reason, nil).Reason)
	s.StopChildren(s.child)
}

func (s rootSupervisor) Children() []*actor.PID { return []*actor.PID{s.child} }
