package strategy

import (
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/supervisor"
)

// plan is a restart, of one child or a group, that has to wait; or the
// replacement of them.
type plan struct {
	due     time.Time
	alone   bool // one child only, which no group takes over
	timer   *time.Timer
	members []*member // some may have gone over to a later plan
}

// member is a child that a plan is for. The name may come to belong to another
// actor: it is the process that counts.
type member struct {
	pid     *actor.PID
	process actor.Process
	plan    *plan
	ended   bool // it has ended and its replacement may be started
}

// carryOut restarts or replaces group after wait. child has crashed and takes no
// messages any more; the others of a group must not go on without it, so they
// are suspended for the wait.
func (s *Strategy) carryOut(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, group []*actor.PID, wait time.Duration, alone bool) {
	p := &plan{due: time.Now().Add(wait), alone: alone}
	var waited []*member // that had been waiting already
	s.mu.Lock()
	for _, pid := range group {
		if m := s.waiting[pid.GetId()]; m != nil {
			waited = append(waited, m)
		}
		process, _ := sys.ProcessRegistry.Get(pid)
		s.enterLocked(p, &member{pid: pid, process: process})
	}
	switch {
	case s.spec.Replace:
		if !alone { // those that are down already come up with the group: they stand behind it
			s.takeOverLocked(p)
		}
		members := p.members
		s.mu.Unlock()
		if wait > 0 {
			tellWaiting(sys, members, p.due)
		}
		for _, pid := range slices.Backward(group) {
			sup.StopChildren(pid)
		}
	case wait <= 0:
		s.answerLocked(p, s.finishLocked(p))
		s.mu.Unlock()
		tellWaiting(sys, waited, time.Time{})
		sup.RestartChildren(group...)
	default:
		members := p.members
		s.mu.Unlock()
		for _, m := range members {
			if m.pid.GetId() != child.GetId() {
				m.process.SendSystemMessage(m.pid, &actor.SuspendMailbox{})
			}
		}
		tellWaiting(sys, members, p.due)
		s.mu.Lock()
		defer s.mu.Unlock()
		p.timer = time.AfterFunc(wait, func() { s.carryOn(sys, sup, p) })
	}
}

// carryOn restarts the actors of p after its wait. All are restarted before the next decision
// is made, which may be about the first of them.
func (s *Strategy) carryOn(sys *actor.ActorSystem, sup actor.Supervisor, p *plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ms := slices.DeleteFunc(s.finishLocked(p), func(m *member) bool { return !m.alive(sys) })
	s.answerLocked(p, ms)
	for _, m := range ms {
		sup.RestartChildren(m.pid)
	}
}

// alive tells whether the name still belongs to the process that was meant.
func (m *member) alive(sys *actor.ActorSystem) bool {
	process, ok := sys.ProcessRegistry.Get(m.pid)
	return ok && process == m.process
}

// enterLocked adds m to p; an earlier plan for the same child is over.
func (s *Strategy) enterLocked(p *plan, m *member) {
	m.plan = p
	p.members = append(p.members, m)
	s.waiting[m.pid.GetId()] = m
}

// takeOverLocked adds what is down on behalf of other groups to p.
func (s *Strategy) takeOverLocked(p *plan) {
	for _, old := range s.plansLocked() {
		if old == p || old.alone {
			continue
		}
		for _, m := range old.members {
			if m.plan == old && s.waiting[m.pid.GetId()] == m {
				s.enterLocked(p, m)
			}
		}
	}
}

// finishLocked ends p and returns whom it is still for.
func (s *Strategy) finishLocked(p *plan) (ms []*member) {
	for _, m := range p.members {
		path := m.pid.GetId()
		if m.plan != p || s.waiting[path] != m {
			continue
		}
		delete(s.waiting, path)
		ms = append(ms, m)
	}
	return ms
}

// errAnswered is no crash: its order tells which crashes came before an answer.
var errAnswered = errors.New("answered")

// answerLocked notes that the members ms of p are about to be restarted: that answers
// what they have crashed of before. A child that restarts alone has crashed of
// nothing else.
func (s *Strategy) answerLocked(p *plan, ms []*member) {
	if p.alone {
		return
	}
	mark := supervisor.NewCrash(errAnswered, nil).Order
	for _, m := range ms {
		s.answered[m.pid.GetId()] = mark
	}
}

// plansLocked lists those that are not over, the one due first, first.
func (s *Strategy) plansLocked() (ps []*plan) {
	for _, m := range s.waiting {
		if !slices.Contains(ps, m.plan) {
			ps = append(ps, m.plan)
		}
	}
	slices.SortFunc(ps, func(a, b *plan) int { return a.due.Compare(b.due) })
	return ps
}

// covered tells whether a restart that was decided before covers this crash:
// the child waits for it, or it was on its way when the child crashed beside
// another of its group. OTP's supervisor sees one failure there, too.
func (s *Strategy) covered(sys *actor.ActorSystem, child *actor.PID, c *supervisor.Crash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := child.GetId()
	if m := s.waiting[path]; m != nil {
		if now, ok := sys.ProcessRegistry.Get(child); !ok || now == m.process {
			return true
		}
		delete(s.waiting, path) // somebody else has started another actor there
	}
	return c.Order != 0 && c.Order < s.answered[path]
}

// Ended tells s that the child at path has ended, and asks whether it is to be
// replaced; if not, it was stopped for good. The supervisor calls it for every child.
func (s *Strategy) Ended(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.waiting[path]
	if m == nil || !s.spec.Replace {
		delete(s.waiting, path)
		return false
	}
	m.ended = true
	return true
}

// Due returns the children to start anew at now, in their order, and forgets them;
// and when to ask again, zero if there is nothing to wait for. A group starts when
// all of it has ended. The supervisor calls it.
func (s *Strategy) Due(now time.Time) (paths []string, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.plansLocked() {
		mine := func(m *member) bool { return m.plan == p && s.waiting[m.pid.GetId()] == m }
		switch {
		case slices.ContainsFunc(p.members, func(m *member) bool { return mine(m) && !m.ended }):
		case p.due.After(now):
			if next.IsZero() {
				next = p.due
			}
		default:
			for _, m := range s.finishLocked(p) {
				paths = append(paths, m.pid.GetId())
			}
		}
	}
	return paths, next
}

// publish tells the subscribers, which are called inline: a panic or Goexit in
// one must not keep the strategy from deciding, nor end the process at the root.
func publish(sys *actor.ActorSystem, event any) {
	<-Contain(func() { sys.EventStream.Publish(event) }) //nolint:errcheck // nobody is left to be told
}

// tell publishes, as the library does, what was decided about a failure.
func tell(sys *actor.ActorSystem, child *actor.PID, f supervisor.Failure, d actor.Directive) {
	publish(sys, &actor.SupervisorEvent{Child: child, Reason: &supervisor.Crash{Reason: f.Reason, Stack: f.Stack, Job: f.Job}, Directive: d})
}

// tellWaiting publishes until when ms wait.
func tellWaiting(sys *actor.ActorSystem, ms []*member, until time.Time) {
	for _, m := range ms {
		publish(sys, &Waiting{Child: m.pid, Until: until})
	}
}
