package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/supervisor"
)

// successors starts fresh actors for the children that a strategy replaces. The
// strategy stops such a child and remembers it; the supervisor asks about each
// child that ends. The state of it is the strategy's and the timer here: a
// supervisor that restarts begins with all its children anyway.
type successors struct {
	o     *oversight
	start func(ctx actor.Context, name string)
	epoch uint64
	timer *time.Timer
	gone  map[string]bool // paths of those that ended and have no successor yet
}

// due is the timer of successors.
type due struct{ epoch uint64 }

func (due) IgnoreDeadLetterLogging() {}

// ended tells whether the child at path, which has ended, gets a successor;
// else its strategy has stopped it for good, or it has ended by itself.
func (s *successors) ended(path string) (replaced bool) {
	if r, ok := s.o.strategy.(supervisor.Replacer); ok {
		if err := s.o.call(func() { replaced = r.Ended(path) }); err != nil {
			s.o.d.overruled(s.o.cell, s.o.name(), err)
			replaced = false
		}
	}
	if !replaced {
		s.o.d.tree.find(path).waits(time.Time{})
		return false
	}
	if s.gone == nil {
		s.gone = map[string]bool{}
	}
	s.gone[path] = true
	return true
}

// step starts those whose time has come. A supervisor calls it after ended and
// on its due; never once it is stopping.
func (s *successors) step(ctx actor.Context) {
	r, ok := s.o.strategy.(supervisor.Replacer)
	if !ok {
		return
	}
	if s.epoch == 0 {
		s.epoch = s.o.d.nextEpoch()
	}
	if s.o.cell.isOver() { // it has escalated: when it is to go on, it takes messages again
		ctx.Send(ctx.Self(), due{s.epoch})
		return
	}
	var paths []string
	var next time.Time
	now := time.Now()
	if err := s.o.call(func() { paths, next = r.Due(now) }); err != nil {
		s.o.d.overruled(s.o.cell, s.o.name(), err)
		return
	}
	for _, path := range paths {
		if s.gone[path] { // whatever a user's strategy says
			delete(s.gone, path)
			_, name := splitPath(path)
			s.start(ctx, name)
		}
	}
	s.stop()
	if next.IsZero() {
		return
	}
	d, self, m := s.o.d, ctx.Self(), due{s.epoch}
	s.timer = time.AfterFunc(next.Sub(now), func() { d.root().Send(self, m) })
}

// on is step for a due of this incarnation.
func (s *successors) on(ctx actor.Context, m due) {
	if m.epoch == s.epoch {
		s.step(ctx)
	}
}

func (s *successors) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}
