package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/supervision"
)

// Strategy is a protoactor SupervisorStrategy made from a Spec. It is safe for
// concurrent use; it belongs to one supervisor.
type Strategy struct {
	kind  kind
	given Spec // as it was given, for Validate
	spec  Spec
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

func newStrategy(k kind, given Spec) *Strategy {
	s := given.withDefaults()
	return &Strategy{
		kind: k, given: given, spec: s, guard: guard{decide: s.Decide},
		budget:  budget{intensity: s.Intensity, period: s.Period},
		streaks: streaks{backoff: s.Backoff, period: s.Period},
		tally:   newTally(s.Period), gaveUp: newTally(time.Hour),
		waiting: map[string]*member{}, answered: map[string]uint64{},
	}
}

// String tells all but the decider, like "one_for_one, 20 restarts in 1m0s,
// backoff 100ms..5s, jitter 0.2, replace", without what s does not do.
func (s *Strategy) String() string {
	text := fmt.Sprintf("%s, %s", s.kind, &s.budget)
	if b := s.spec.Backoff; b.Min > 0 {
		text += fmt.Sprintf(", backoff %s..%s", b.Min, cmp.Or(max(b.Max, 0), maxBackoff))
		if b.Jitter > 0 {
			text += fmt.Sprintf(", jitter %g", b.Jitter)
		}
	}
	if s.spec.Replace {
		text += ", replace"
	}
	return text
}

// Validate reports the faults of the Spec that s was made from.
func (s *Strategy) Validate() error {
	if s == nil || s.kind == "" {
		return errors.New("supervisor: the Strategy is nil or empty, expected one made by OneForOne, AllForOne, RestForOne or Default")
	}
	return s.given.validate()
}

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

// Budget returns how many restarts of the budget are used now, and how many there are.
func (s *Strategy) Budget() (used, intensity int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.budget.count(time.Now()), s.budget.intensity
}

// Period returns the time that Budget counts in.
func (s *Strategy) Period() time.Duration { return s.budget.period }

// HandleFailure implements actor.SupervisorStrategy.
func (s *Strategy) HandleFailure(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, message any) {
	crash := NewCrash(reason, nil)
	if s.covered(sys, child, crash) {
		return
	}
	f := s.failure(child.GetId(), crash)
	d, err := s.guard.ask(f)
	if err != nil {
		publish(sys, &supervision.Overruled{Child: child, Err: err})
	}
	if f.gaveUp() && d == Resume {
		d = Restart // it is a supervisor whose failed child nobody would wake
	}
	switch d {
	case Resume:
		tell(sys, child, f, actor.ResumeDirective)
		sup.ResumeChildren(child)
	case Stop:
		tell(sys, child, f, actor.StopDirective)
		sup.StopChildren(child)
	case Escalate:
		escalate(sys, sup, child, f, &Exceeded{Path: f.Path, Restarts: f.Restarts, Cause: f.Reason}, message)
	default:
		s.restart(sys, sup, child, f, message)
	}
}

func (s *Strategy) restart(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, f Failure, message any) {
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
		escalate(sys, sup, child, f, &Exceeded{Path: f.Path, Restarts: n - 1, Spec: s.budget.String(), Cause: f.Reason}, message)
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

func (s *Strategy) failure(path string, c *Crash) Failure {
	f := Failure{Path: path, Reason: c.Reason, Stack: c.Stack, Job: jobOf(c.Reason)}
	f.Role, f.Capsule = split(path)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Restarts = s.budget.count(now)
	f.ActorCrashes = s.tally.add("actor "+path, now)
	if f.gaveUp() {
		f.GaveUp = s.gaveUp.add(path, now)
	}
	if f.Job != nil {
		f.JobCrashes = s.tally.add("class "+f.Job.Class, now)
	}
	return f
}

// escalate hands e on, with the stack of the panic that began it.
func escalate(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, f Failure, e *Exceeded, message any) {
	tell(sys, child, Failure{Reason: e, Stack: f.Stack}, actor.EscalateDirective)
	sup.EscalateFailure(NewCrash(e, f.Stack), message)
}
