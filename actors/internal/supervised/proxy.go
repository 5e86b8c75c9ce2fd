package supervised

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors/internal/strategy"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/supervisor"
)

// Proxy stands between a supervisor and its strategy, which may be the
// user's. It keeps the strategy's code out of the actor's own goroutine (a
// Goexit there ends a mailbox for ever), overrules a strategy that panics,
// reports one that blocks, and sees to it that every failure is told of.
type Proxy struct {
	s        *System
	node     *node                    // of the supervisor
	strategy actor.SupervisorStrategy // nil until a failure needs the default
	fallback *strategy.Strategy       // decides where strategy panicked; nil before that
}

// blockedTime is how long a strategy may take before it is reported: twice what
// a decider may, so that one that is overruled is not reported for it.
func blockedTime(s any) time.Duration {
	if _, ours := s.(*strategy.Strategy); ours {
		return 2 * time.Second
	}
	return time.Second
}

// call runs a method of the strategy and waits for it. Its panic or Goexit is
// returned; while it takes too long, tree, log and events say so.
func (o *Proxy) call(f func()) error {
	var mu sync.Mutex
	began, ended, reported := time.Now(), false, false
	t := time.AfterFunc(blockedTime(o.strategy), func() {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			reported = true
			o.blocked(began)
		}
	})
	err := Isolate(f)
	t.Stop()
	mu.Lock()
	defer mu.Unlock()
	if ended = true; reported {
		o.returned(began)
	}
	return err
}

func (o *Proxy) name() string {
	if own, ok := o.strategy.(*strategy.Strategy); ok {
		return own.Kind()
	}
	return fmt.Sprintf("%T", o.strategy)
}

func (o *Proxy) blocked(since time.Time) {
	o.node.mu.Lock()
	o.node.stuck, o.node.stuckIn = since, o.name()
	o.node.mu.Unlock()
	Tell(func() {
		o.s.log.Error().Str("actor", o.node.path).Str("strategy", o.name()).Float64("elapsed_s", time.Since(since).Seconds()).
			Msg("a strategy does not decide; its supervisor waits for it, a stop does not")
	})
	o.node.publish(event.StrategyBlocked{ActorEvent: o.node.now(), Strategy: o.name(), Since: since})
}

func (o *Proxy) returned(since time.Time) {
	o.node.mu.Lock()
	o.node.stuck = time.Time{}
	o.node.mu.Unlock()
	took := time.Since(since)
	o.s.log.Warn().Str("actor", o.node.path).Str("strategy", o.name()).Float64("elapsed_s", took.Seconds()).
		Msg("a strategy that was late has decided")
	o.node.publish(event.StrategyReturned{ActorEvent: o.node.now(), Strategy: o.name(), After: took})
}

// handle is called in the supervisor's goroutine when a child has failed. One
// that fails while its supervisor restarts or ends, or after it has escalated,
// goes down with it: there is nothing to decide, and no budget to spend.
func (o *Proxy) handle(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, rs *actor.RestartStatistics, reason, message any) {
	crash := supervisor.NewCrash(reason, nil)
	if o.node.isOver() {
		o.s.logFailure(child.GetId(), "none", crash)
		return
	}
	if o.strategy == nil {
		o.strategy = strategy.New(supervisor.Default())
	}
	failed := o.s.find(child.GetId())
	failed.setPublished(false)
	ctx, _ := sup.(actor.Context)
	v := &view{Context: ctx, sup: sup, o: o, child: child.GetId()}
	if err := o.call(func() { o.strategy.HandleFailure(sys, v, child, rs, crash, message) }); err != nil {
		o.s.overruled(o.node, o.name(), err)
		if v.decided() == "" {
			if o.fallback == nil {
				o.fallback = strategy.Of(supervisor.Default())
			}
			o.fallback.HandleFailure(sys, v, child, rs, crash, message)
		}
	}
	if !failed.isPublished() {
		o.s.logFailure(child.GetId(), cmp.Or(v.decided(), "none"), crash)
	}
}

// begin gives a supervisor that starts a fresh budget, as OTP does.
func (o *Proxy) begin() {
	if o.fallback != nil {
		o.fallback.Reset()
	}
	if r, ok := o.strategy.(interface{ Reset() }); ok {
		if err := o.call(r.Reset); err != nil {
			o.s.overruled(o.node, o.name(), err)
		}
	}
}

// end is called when the supervisor is about to restart or stop.
func (o *Proxy) end() {
	if o.strategy != nil {
		o.s.CancelReplacements(o.node.path)
	}
}

// view is the supervisor as its strategy sees it: the actor's own context,
// with the children in the order of their first start (the library's own order
// changes whenever a child ends).
type view struct {
	actor.Context
	sup   actor.Supervisor
	o     *Proxy
	child string // that failed

	mu      sync.Mutex
	verdict string
}

var _ actor.Supervisor = (*view)(nil)

func (v *view) Children() []*actor.PID {
	children := slices.Clone(v.sup.Children())
	order := map[string]uint64{}
	for _, pid := range children {
		order[pid.GetId()] = v.o.s.find(pid.GetId()).born()
	}
	slices.SortStableFunc(children, func(a, b *actor.PID) int { return cmp.Compare(order[a.GetId()], order[b.GetId()]) })
	return children
}

// decide notes what the strategy did first.
func (v *view) decide(verdict string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.verdict = cmp.Or(v.verdict, verdict)
}

func (v *view) decided() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.verdict
}

func (v *view) RestartChildren(pids ...*actor.PID) {
	v.decide("restart")
	v.sup.RestartChildren(pids...)
}

func (v *view) StopChildren(pids ...*actor.PID) {
	v.decide("stop")
	v.sup.StopChildren(pids...)
}

func (v *view) ResumeChildren(pids ...*actor.PID) {
	v.decide("resume")
	v.sup.ResumeChildren(pids...)
}

// EscalateFailure makes the supervisor fail. Whatever reason the strategy hands
// on, above it is this supervisor that has given up: the crash of a user's job
// must not pass for one of the supervisor.
func (v *view) EscalateFailure(reason, message any) {
	v.decide("escalate")
	crash := supervisor.NewCrash(reason, nil)
	if _, ok := crash.Reason.(*supervisor.Exceeded); !ok { //nolint:errorlint // its own, not one below
		crash = supervisor.NewCrash(&supervisor.Exceeded{Path: v.child, Cause: crash.Reason}, crash.Stack)
	}
	c := v.o.node
	c.giveUp(crash)
	c.publish(event.ActorEscalated{ActorEvent: c.now(), Err: crash.Reason})
	c.box.crash(func() { v.sup.EscalateFailure(crash, message) })
}

func (s *System) onDecision(e *actor.SupervisorEvent) {
	path := e.Child.GetId()
	c := s.find(path)
	c.setPublished(true)
	crash := supervisor.NewCrash(e.Reason, nil)
	directive := map[actor.Directive]string{
		actor.ResumeDirective: "resume", actor.RestartDirective: "restart",
		actor.StopDirective: "stop", actor.EscalateDirective: "escalate",
	}[e.Directive]
	given, _ := crash.Reason.(*supervisor.Exceeded) //nolint:errorlint // who gave up: the child's supervisor, or the child itself
	if path == s.root && given != nil && given.Path == path && c != nil {
		c.publish(event.ActorEscalated{ActorEvent: c.now(), Err: crash.Reason}) // the root has no row of its own
	}
	s.logFailure(path, directive, crash)
}

// logFailure is the one line of a crash.
func (s *System) logFailure(path, directive string, crash *supervisor.Crash) {
	level := zerolog.ErrorLevel
	if crash.Job != nil {
		level = zerolog.WarnLevel
	}
	line := s.log.WithLevel(level).Str("actor", path).Str("directive", directive)
	logs.Err(line, crash.Reason).Bytes("stack", crash.Stack).Msg("an actor crashed")
}

// logPanic is the line of a panic that makes no actor crash. What panics may be a
// hook of the user's logger.
func (s *System) logPanic(path, text string, crash *supervisor.Crash) {
	Tell(func() {
		logs.Err(s.log.Error().Str("actor", path), crash.Reason).Bytes("stack", crash.Stack).Msg(text)
	})
}

// overruled tells that the default decided for c, a supervisor.
func (s *System) overruled(c *node, strategy string, err error) {
	logs.Err(s.log.Error().Str("actor", c.path).Str("strategy", strategy), err).
		Msg("a strategy was overruled by the default")
	c.publish(event.StrategyOverruled{ActorEvent: c.now(), Strategy: strategy, Err: err})
}
