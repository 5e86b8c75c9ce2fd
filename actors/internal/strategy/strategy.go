// Package strategy carries out what a supervisor.Strategy says, for one supervisor: it counts
// restarts, asks the decider, and restarts or replaces children at their time.
package strategy

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/supervisor"
)

// New returns the working strategy of one supervisor.
func New(s *supervisor.Strategy) actor.SupervisorStrategy {
	if foreign, ok := s.Protoactor().(actor.SupervisorStrategy); ok {
		return foreign
	}
	return Of(s)
}

// Strategy restarts, replaces and stops the children of one supervisor, as a
// supervisor.Strategy of this module says. It is safe for concurrent use.
type Strategy struct {
	kind  string
	spec  supervisor.Spec
	guard guard

	mu       sync.Mutex
	budget   budget
	streaks  streaks
	tally    tally
	gaveUp   tally              // of children that are supervisors
	waiting  map[string]*member // children that wait for their restart or replacement, by path
	answered map[string]uint64  // order of the last restart of the group, by path
}

var _ actor.SupervisorStrategy = (*Strategy)(nil)

// Kinds, by how far a failure reaches.
const one, all = "one_for_one", "all_for_one"

// Of is New for a strategy that is not from the actor library.
func Of(made *supervisor.Strategy) *Strategy {
	s := made.Spec()
	return &Strategy{
		kind: made.Kind(), spec: s, guard: guard{decide: s.Decide},
		budget:  budget{intensity: s.Intensity, period: s.Period},
		streaks: streaks{backoff: s.Backoff, period: s.Period},
		tally:   newTally(s.Period), gaveUp: newTally(time.Hour),
		waiting: map[string]*member{}, answered: map[string]uint64{},
	}
}

// Kind is that of the supervisor.Strategy.
func (s *Strategy) Kind() string { return s.kind }

// Reset forgets all that was. A supervisor calls it when it starts, so that a
// restarted one has a fresh budget, as in OTP.
func (s *Strategy) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget.reset()
	s.streaks.reset()
	s.tally, s.gaveUp = newTally(s.spec.Period), newTally(time.Hour)
	for _, m := range s.waiting {
		if t := m.plan.timer; t != nil {
			t.Stop()
		}
	}
	clear(s.waiting)
	clear(s.answered)
}

// Budget is how many restarts are used now; nil if none is allowed.
func (s *Strategy) Budget() *tree.Budget {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.budget.intensity <= 0 {
		return nil
	}
	return &tree.Budget{Used: s.budget.count(time.Now()), Most: s.budget.intensity, Period: s.budget.period}
}

// HandleFailure implements actor.SupervisorStrategy.
func (s *Strategy) HandleFailure(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, message any) {
	crash := supervisor.NewCrash(reason, nil)
	if s.covered(sys, child, crash) {
		return
	}
	f := s.failure(child.GetId(), crash)
	d, err := s.guard.ask(f)
	if err != nil {
		publish(sys, &Overruled{Child: child, Err: err})
	}
	if gaveUp(f) && d == supervisor.Resume {
		d = supervisor.Restart // it is a supervisor whose failed child nobody would wake
	}
	switch d {
	case supervisor.Resume:
		tell(sys, child, f, actor.ResumeDirective)
		sup.ResumeChildren(child)
	case supervisor.Stop:
		tell(sys, child, f, actor.StopDirective)
		sup.StopChildren(child)
	case supervisor.Escalate:
		escalate(sys, sup, child, f, &supervisor.Exceeded{Path: f.Path, Restarts: f.Restarts, Cause: f.Reason}, message)
	default:
		s.restart(sys, sup, child, f, message)
	}
}

func (s *Strategy) restart(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, f supervisor.Failure, message any) {
	if f.Job != nil { // a bad job concerns nobody but its processor
		tell(sys, child, f, actor.RestartDirective)
		s.carryOut(sys, sup, child, []*actor.PID{child}, 0, true)
		return
	}
	key := "" // of the group
	if s.kind == one {
		key = f.Path
	}
	now := time.Now()
	var wait time.Duration
	s.mu.Lock()
	n, exceeded := s.budget.spend(now)
	if !exceeded {
		wait = s.streaks.climb(key, now)
	}
	s.mu.Unlock()
	if exceeded {
		escalate(sys, sup, child, f, &supervisor.Exceeded{Path: f.Path, Restarts: n - 1, Spec: s.budget.String(), Cause: f.Reason}, message)
		return
	}
	tell(sys, child, f, actor.RestartDirective)
	s.carryOut(sys, sup, child, s.group(sup, child), wait, s.kind == one)
}

// group is what restarts together with child, in the order of Children.
func (s *Strategy) group(sup actor.Supervisor, child *actor.PID) []*actor.PID {
	if s.kind == one {
		return []*actor.PID{child}
	}
	children := slices.Clone(sup.Children())
	i := slices.IndexFunc(children, func(p *actor.PID) bool { return p.GetId() == child.GetId() })
	switch {
	case i < 0:
		return []*actor.PID{child}
	case s.kind == all:
		return children
	}
	return children[i:]
}

func (s *Strategy) failure(path string, c *supervisor.Crash) supervisor.Failure {
	f := supervisor.Failure{Path: path, Reason: c.Reason, Stack: c.Stack, Job: c.Job}
	f.Role, f.Capsule = split(path)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Restarts = s.budget.count(now)
	f.ActorCrashes = s.tally.add("actor "+path, now)
	if gaveUp(f) {
		f.GaveUp = s.gaveUp.add(path, now)
	}
	if f.Job != nil {
		f.JobCrashes = s.tally.add("class "+f.Job.Class, now)
	}
	return f
}

// gaveUp tells whether the child is a supervisor that gave up.
func gaveUp(f supervisor.Failure) bool {
	_, ok := f.Reason.(*supervisor.Exceeded) //nolint:errorlint // the child's own reason
	return ok
}

// escalate hands e on, with the stack of the panic that began it.
func escalate(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, f supervisor.Failure, e *supervisor.Exceeded, message any) {
	tell(sys, child, supervisor.Failure{Reason: e, Stack: f.Stack}, actor.EscalateDirective)
	sup.EscalateFailure(supervisor.NewCrash(e, f.Stack), message)
}

// split reads role and capsule off a path.
func split(path string) (role, capsule string) {
	parts := strings.Split(path, "/")
	switch len(parts) {
	case 1:
		return parts[0], ""
	case 2:
		switch parts[1] {
		case "heartbeat", "poller", "rescuer":
			return parts[1], ""
		}
		if strings.HasPrefix(parts[1], "outbox-") {
			return "outbox", ""
		}
		return "manager", parts[1]
	}
	last := parts[len(parts)-1]
	if i := strings.LastIndexByte(last, '-'); i > 0 {
		last = last[:i]
	}
	return last, parts[1]
}
